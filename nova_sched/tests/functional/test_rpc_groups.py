# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""The namespace `groups`: whole groups are planned, built member by member, changed, and
forgotten."""

import concurrent.futures
import json
import os
import signal

import pytest
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.engine.groups import template_readers
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually, spec

OURS, THEIRS = 'our-project', 'their-project'
TEMPLATE = """\
heat_template_version: 2021-04-16
parameters:
  count: {type: number, default: 3}
  level: {type: string, default: rack}
resources:
  web:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: count}
      resource_def:
        type: OS::Nova::Server
        properties:
          flavor: {vcpus: 2, ram: 512}
  app:
    type: OS::NovaSched::Group
    properties:
      members: [web]
      policies: [{type: anti-affinity, level: {get_param: level}}]
"""
PATHS = [f'app/web/{number}' for number in range(3)]


def context(project_id=OURS):
    return RequestContext(overwrite=False, project_id=project_id, user_id='somebody')


@pytest.fixture
def cloud(daemon):
    """A daemon with two hosts in each of three racks; groups go when a test is over."""
    for rack in ('r1', 'r2', 'r3'):
        daemon.add(f'{rack}-a', f'{rack}-b', vcpus=4, stats={'rack': rack})
    yield daemon
    for one in daemon.groups.list():
        if one.status != 'deleting':
            daemon.groups.delete(one.uuid)


def records(cloud):
    """Rows of the groups there are; upkeep may drop those of deleted ones at any time."""
    return [row for row in cloud.table('top_groups') if not row[-1]]


def create(cloud, name='shop', project_id=OURS, **more):
    return cloud.groups.create(TEMPLATE, name, context=context(project_id), **more)


def places(made):
    return {one.path: one.host for one in made.members}


def states(made):
    return [one.state for one in made.members]


def build(cloud, made, path, server, **words):
    """Ask for the server that is to be a member, as a conductor does; returns its Selections."""
    hints = {'top_group': [made.uuid], 'member': [path]}
    asked = spec(**{'vcpus': 2, 'project_id': OURS, 'scheduler_hints': hints, **words})
    (found,) = cloud.scheduler.select_destinations(asked, [uuid_of(server)])
    return found


def test_a_group_is_planned_as_a_whole(cloud):
    made = create(cloud, parameters={'count': 3})
    assert (made.name, made.project_id, made.user_id) == ('shop', OURS, 'somebody')
    assert (made.status, made.generation, made.dry_run) == ('planned', 1, False)
    assert [one.path for one in made.members] == PATHS
    assert states(made) == ['planned'] * 3
    assert sorted(one.domains['rack'] for one in made.members) == ['r1', 'r2', 'r3']
    assert all(one.domains['host'] == one.host for one in made.members)
    assert {one.availability_zone for one in made.members} == {'nova'}
    assert 3590 < (made.expires_at - made.created_at).total_seconds() <= 3601
    assert json.loads(made.parameters) == {'count': 3}
    assert len(cloud.table('claims')) == 3


@pytest.mark.parametrize('ttl', [7, 70000])
def test_the_caller_says_how_long_it_is_held(cloud, ttl):
    made = create(cloud, ttl=ttl)
    assert abs((made.expires_at - made.created_at).total_seconds() - ttl) < 2


def test_a_trial_holds_nothing(cloud):
    before = records(cloud)
    made = create(cloud, dry_run=True)
    assert made.dry_run
    assert all(places(made).values())
    assert (cloud.table('claims'), records(cloud)) == ([], before)


def test_what_is_planned_is_taken(cloud):
    create(cloud, parameters={'count': 6, 'level': 'host'})
    assert cloud.boot('one', vcpus=2)
    create(cloud, parameters={'count': 5, 'level': 'host'})
    with pytest.raises(errors.NoValidHost):
        cloud.boot('two', vcpus=2)


def test_a_group_that_cannot_be_is_refused_whole_with_the_reason(cloud):
    before = records(cloud)
    with pytest.raises(errors.GroupRefused) as refused:
        create(cloud, parameters={'count': 4})
    assert refused.value.reason
    assert isinstance(refused.value.details, dict)
    assert (cloud.table('claims'), records(cloud)) == ([], before)


def test_a_group_is_shown(cloud):
    made = create(cloud)
    for found in (cloud.groups.show(made.uuid), cloud.groups.plan(made.uuid, OURS)):
        assert places(found) == places(made)
        assert (found.uuid, found.generation, found.template) == (made.uuid, 1, TEMPLATE)


def test_groups_are_listed(cloud):
    first, second = create(cloud, 'first'), create(cloud, 'second', THEIRS)
    third = create(cloud, 'first', dry_run=False, parameters={'count': 1})

    def listed(**wanted):
        return [one.uuid for one in cloud.groups.list(**wanted)]

    assert listed() == [first.uuid, second.uuid, third.uuid]
    assert listed(project_id=THEIRS) == [second.uuid]
    assert listed(name='first') == [first.uuid, third.uuid]
    assert listed(limit=2) == [first.uuid, second.uuid]
    assert listed(limit=2, marker=second.uuid) == [third.uuid]
    assert listed(project_id='nobody') == []
    assert all('members' not in one for one in cloud.groups.list())
    with pytest.raises(errors.GroupNotFound):
        listed(marker=uuid_of('nothing'))


def test_members_are_built_one_by_one_where_they_were_planned(cloud):
    made = create(cloud)
    for number, path in enumerate(PATHS):
        best, *alternates = build(cloud, made, path, f'server {number}')
        assert best.service_host == places(made)[path]
        racks = {best.service_host[:2]} | {one.service_host[:2] for one in alternates}
        assert racks == {best.service_host[:2]}  # the others hold the other racks
    found = cloud.groups.show(made.uuid)
    assert (found.status, states(found)) == ('building', ['pending'] * 3)
    assert [one.instance_uuid for one in found.members] == [
        uuid_of(f'server {n}') for n in range(3)
    ]
    assert len(cloud.table('claims')) == 3
    for number, path in enumerate(PATHS):
        cloud.claims.confirm_claim(uuid_of(f'server {number}'), places(made)[path])
    found = cloud.groups.show(made.uuid)
    assert (found.status, states(found)) == ('built', ['confirmed'] * 3)


@pytest.mark.parametrize(
    'words, why',
    [
        pytest.param(
            {'vcpus': 1},
            'flavor.vcpus was planned to be 2, but 1 is asked for',
            id='another flavor',
        ),
        pytest.param({'availability_zone': 'nova'}, 'availability_zone', id='another zone'),
        pytest.param({'project_id': THEIRS}, 'There is no placement group', id='not theirs'),
    ],
)
def test_a_server_that_is_not_what_was_planned(cloud, words, why):
    made = create(cloud)
    before = cloud.table('claims')
    with pytest.raises(errors.NoValidHost, match=why):
        build(cloud, made, PATHS[0], 'one', **words)
    assert cloud.table('claims') == before


def test_a_member_that_is_none(cloud):
    made = create(cloud)
    with pytest.raises(errors.NoValidHost, match='no such member'):
        build(cloud, made, 'app/db', 'one')


def test_a_group_grows_and_shrinks(cloud):
    made = create(cloud, parameters={'count': 2})
    build(cloud, made, PATHS[0], 'one')
    grown = cloud.groups.update(made.uuid, TEMPLATE, {'count': 3}, generation=1, context=context())
    assert (grown.generation, [one.path for one in grown.members]) == (2, PATHS)
    assert {path: places(grown)[path] for path in PATHS[:2]} == places(made)
    assert sorted(one.domains['rack'] for one in grown.members) == ['r1', 'r2', 'r3']
    assert (states(grown), grown.moves) == (['pending', 'planned', 'planned'], [])
    shrunk = cloud.groups.update(made.uuid, TEMPLATE, {'count': 1}, context=context())
    assert (shrunk.generation, states(shrunk)) == (3, ['pending'])
    assert len(cloud.table('claims')) == 1


def test_an_update_is_taken_back(cloud):
    """A move that it asked for and that was not made goes with it."""
    together = TEMPLATE.replace('anti-affinity', 'affinity')
    made = cloud.groups.create(together, parameters={'count': 2}, context=context())
    for number, path in enumerate(PATHS[:2]):
        host = build(cloud, made, path, f'server {number}')[0].service_host
        cloud.claims.confirm_claim(uuid_of(f'server {number}'), host)
    before = cloud.table('claims')
    apart = cloud.groups.update(made.uuid, TEMPLATE, {'count': 2}, context=context())
    assert len(apart.moves) == 1
    back = cloud.groups.update(made.uuid, together, {'count': 2}, context=context())
    assert (back.generation, back.moves, places(back)) == (3, [], places(made))
    assert cloud.table('claims') == before


def test_a_second_server_for_a_member(cloud):
    made = create(cloud, parameters={'count': 1})
    build(cloud, made, PATHS[0], 'first')
    with pytest.raises(errors.NoValidHost, match=f'it is instance {uuid_of("first")} already'):
        build(cloud, made, PATHS[0], 'second')
    hints = {'top_group': [made.uuid], 'member': [PATHS[0]], 'replace': ['true']}
    assert build(cloud, made, PATHS[0], 'second', scheduler_hints=hints)
    assert len(cloud.table('claims')) == 2


def test_a_trial_of_an_update_changes_nothing(cloud):
    made = create(cloud, parameters={'count': 2})
    before = cloud.table('claims'), records(cloud)
    found = cloud.groups.update(made.uuid, TEMPLATE, {'count': 3}, dry_run=True, context=context())
    assert (found.dry_run, len(found.members)) == (True, 3)
    assert (cloud.table('claims'), records(cloud)) == before


def test_two_writers(cloud):
    made = create(cloud)
    cloud.groups.update(made.uuid, TEMPLATE, {'count': 2}, generation=1)
    for late in (
        lambda: cloud.groups.update(made.uuid, TEMPLATE, {'count': 1}, generation=1),
        lambda: cloud.groups.delete(made.uuid, generation=1),
    ):
        with pytest.raises(errors.GroupChanged) as changed:
            late()
        assert changed.value.args == (made.uuid, 1, 2)
    assert len(cloud.groups.show(made.uuid).members) == 2


def test_an_update_that_cannot_be_changes_nothing(cloud):
    made = create(cloud)
    with pytest.raises(errors.GroupRefused):
        cloud.groups.update(made.uuid, TEMPLATE, {'count': 4})
    found = cloud.groups.show(made.uuid)
    assert (found.generation, places(found)) == (1, places(made))


def test_a_plan_is_held_for_longer(cloud):
    made = create(cloud, ttl=60)
    renewed = cloud.groups.renew(made.uuid, 600)
    assert 530 < (renewed.expires_at - made.expires_at).total_seconds() < 560
    assert places(renewed) == places(made)


def test_members_that_lost_their_places_get_others(cloud):
    made = create(cloud)
    lost = places(made)[PATHS[0]]
    cloud.stats.remove_node(lost, lost)
    found = cloud.groups.show(made.uuid)
    assert (found.status, states(found)) == ('incomplete', ['unplaced', 'planned', 'planned'])
    assert found.members[0].host is None
    found = cloud.groups.plan(made.uuid, replan=True)
    assert (found.status, states(found)) == ('planned', ['planned'] * 3)
    assert sorted(one.domains['rack'] for one in found.members) == ['r1', 'r2', 'r3']
    assert lost not in places(found).values()


def test_a_group_is_deleted(cloud):
    made = create(cloud)
    build(cloud, made, PATHS[0], 'one')
    left = cloud.groups.delete(made.uuid, dry_run=True)
    assert (left.dry_run, states(left)) == (True, ['pending', 'unplaced', 'unplaced'])
    assert len(cloud.table('claims')) == 3
    assert cloud.groups.delete(made.uuid, generation=1) is None
    assert len(cloud.table('claims')) == 1
    assert cloud.groups.show(made.uuid).status == 'deleting'
    cloud.claims.abort_claim(uuid_of('one'))

    def is_gone():
        try:
            cloud.groups.show(made.uuid)
        except errors.GroupNotFound:
            return True
        return False

    eventually(is_gone)


def test_a_group_of_others_is_not_known(cloud):
    made = create(cloud)
    for ask in (
        lambda: cloud.groups.show(made.uuid, THEIRS),
        lambda: cloud.groups.plan(made.uuid, THEIRS),
        lambda: cloud.groups.renew(made.uuid, project_id=THEIRS),
        lambda: cloud.groups.delete(made.uuid, project_id=THEIRS),
        lambda: cloud.groups.update(made.uuid, TEMPLATE, project_id=THEIRS),
        lambda: cloud.groups.show(uuid_of('nothing')),
    ):
        with pytest.raises(errors.GroupNotFound):
            ask()
    assert states(cloud.groups.show(made.uuid, OURS)) == ['planned'] * 3


def test_a_template_is_checked(cloud):
    found = cloud.groups.validate(TEMPLATE, {'count': 1})
    assert [one['path'] for one in found['members']] == PATHS[:1]
    assert found['contradiction'] is None
    with pytest.raises(errors.TemplateError) as refused:
        cloud.groups.validate(TEMPLATE, {'level': 'shelf'})
    assert (refused.value.line, refused.value.where) == (
        18,
        'resources.app.properties.policies.0.level',
    )


@pytest.mark.parametrize(
    'flavor, why',
    [
        pytest.param(
            "{vcpus: 3, ram: 512, extra_specs: {'hw:numa_nodes': 2}}", 'hw:numa_nodes', id='cells'
        ),
        pytest.param(
            "{vcpus: 3, ram: 512, extra_specs: {'resources:X': many}}", 'resources', id='resources'
        ),
    ],
)
def test_a_member_that_nova_would_refuse_is_named(cloud, flavor, why):
    before = records(cloud)
    template = TEMPLATE.replace('{vcpus: 2, ram: 512}', flavor)
    with pytest.raises(errors.InvalidRequest, match=f'member {PATHS[0]}, {why}'):
        cloud.groups.create(template)
    assert records(cloud) == before


def _doubled(levels):
    lines = ['a0: &a0 [1]'] + [f'a{i}: &a{i} [{f"*a{i - 1}, " * 10}]' for i in range(1, levels)]
    return f'{{type: json, default: {{{", ".join(lines)}}}}}'


WIDE = '{' + ', '.join(f'k{i}: 1' for i in range(200)) + '}'
HOSTILE = {
    'aliases of aliases': (f'  x: {_doubled(9)}\n', 'more than 100000 values'),
    'merges': (
        f'  x: {{type: json, default: {{a: &a {WIDE}, b: {{<<: [{"*a, " * 9000}]}}}}}}\n',
        'more than 100000 values',
    ),
    'deep': (f'  x: {{type: json, default: {"[" * 9000}\n', 'nest more than 50 deep'),
    'no int': ('  x: {type: number, default: !!int ""}\n', 'not of the type int'),
    'no boolean': ('  x: {type: boolean, default: !!bool x}\n', 'not of the type bool'),
    'no type': ('  x: {type: !!set {number}}\n', 'means nothing here'),
}


def test_hostile_templates_are_refused_at_each_entrance(cloud):
    made, wrong = create(cloud), {}
    entrances = {
        'create': cloud.groups.create,
        'update': lambda text, context: cloud.groups.update(made.uuid, text, context=context),
        'validate': cloud.groups.validate,
    }
    for name, (text, why) in HOSTILE.items():
        template = TEMPLATE.replace('parameters:\n', f'parameters:\n{text}')
        for entrance, call in entrances.items():
            try:
                wrong[name, entrance] = call(template, context=context())
            except errors.SchedError as error:
                if type(error) is not errors.TemplateError or why not in error.why:
                    wrong[name, entrance] = error
    assert wrong == {}
    assert cloud.groups.show(made.uuid).generation == 1


def test_a_reader_that_hangs_delays_its_project_alone(cloud, monkeypatch):
    """Boots are answered, and templates of others read; then it goes on."""
    monkeypatch.setattr(template_readers, 'GRACE_S', 120.0)
    readers = cloud.service.scheduler.groups._readers
    cloud.groups.validate(TEMPLATE, context=context())
    hung = readers._idle[-1].pid
    os.kill(hung, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(cloud.groups.validate, TEMPLATE, context=context())
            eventually(lambda: OURS in readers._turns)
            assert cloud.boot('beside')
            assert cloud.groups.validate(TEMPLATE, context=context(THEIRS))['members']
            monkeypatch.setattr(template_readers, 'WAIT_S', 0.01)
            with pytest.raises(errors.RateLimited):
                cloud.groups.validate(TEMPLATE, context=context())
            assert not first.done()
            os.kill(hung, signal.SIGCONT)
            assert len(first.result()['members']) == len(PATHS)
    finally:
        os.kill(hung, signal.SIGCONT)
