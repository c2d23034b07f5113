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
"""nova-sched-manage group: how groups are drawn, and how a template is checked without a
scheduler."""

import datetime
import io
import json

import pytest

from nova_sched import errors, objects
from nova_sched.cmd.manage import group, group_pages
from nova_sched.cmd.manage.group_pages import plain
from nova_sched.groups.topology import DomainTopology
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.test_layers import PACKAGE
from nova_sched.tests.unit.cmd.manage.test_commands import cells, keys

MOMENT = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
SERVER = """
      resource_def:
        type: OS::Nova::Server
        properties:
"""
TEMPLATE = f"""\
heat_template_version: 2021-04-16
parameters:
  count: {{type: number, default: 2}}
resources:
  web:
    type: OS::Heat::ResourceGroup
    properties:
      count: {{get_param: count}}{SERVER}          flavor: {{vcpus: 2, ram: 512, disk: 10}}
  app:
    type: OS::NovaSched::Group
    properties:
      members: [web]
      policies: [{{type: anti-affinity, level: host}}]
"""


def member(path, host='a', state='planned', instance=None, nodename=None, **domains):
    return objects.GroupMember(
        path=path,
        state=state,
        member_uuid=uuid_of(path),
        instance_uuid=instance,
        host=host,
        nodename=nodename or host,
        compute_node_uuid=None,
        availability_zone=domains.get('zone'),
        domains={'host': host, **domains} if host else {},
    )


def made(*members, **facts):
    usual = {
        'uuid': uuid_of('group'),
        'name': 'shop',
        'project_id': 'p',
        'user_id': 'u',
        'status': 'planned',
        'generation': 1,
        'serial': 3,
        'template': TEMPLATE,
        'parameters': '{}',
        'members': list(members),
        'moves': [],
        'warnings': [],
        'dry_run': False,
        'created_at': MOMENT,
        'updated_at': MOMENT,
        'expires_at': None,
    }
    return objects.TopGroup(**usual | facts)


def drawn(*members):
    """The lines of the tree alone."""
    lines = group_pages.tree(plain(made(*members))).splitlines()
    return lines[lines.index('') + 1 :]


def test_a_tree_of_domains():
    assert drawn(
        member('web/0', 'a', rack='r1', room='m1', zone='west'),
        member('web/1', 'b', rack='r1', room='m1', zone='west'),
        member('web/2', 'c', rack='r2', room='m1', zone='west'),
        member('db', 'a', 'confirmed', uuid_of('server'), rack='r1', room='m1', zone='west'),
        member('far', 'd', rack='r9', room='m2', zone='east'),
    ) == [
        'the cloud',
        '├── zone west',
        '│   └── room m1',
        '│       ├── rack r1',
        '│       │   ├── host a',
        '│       │   │   ├── web/0  planned',
        f'│       │   │   └── db  confirmed, instance {uuid_of("server")}',
        '│       │   └── host b',
        '│       │       └── web/1  planned',
        '│       └── rack r2',
        '│           └── host c',
        '│               └── web/2  planned',
        '└── zone east',
        '    └── room m2',
        '        └── rack r9',
        '            └── host d',
        '                └── far  planned',
    ]


def test_a_domain_that_is_only_its_host_is_not_drawn():
    assert drawn(
        member('web/0', 'a', rack='a', room='a', zone='nova'),
        member('web/1', 'b', rack='r1', room='r1', zone='nova'),
    ) == [
        'the cloud',
        '└── zone nova',
        '    ├── host a',
        '    │   └── web/0  planned',
        '    └── rack r1',
        '        └── host b',
        '            └── web/1  planned',
    ]


def test_levels_that_do_not_nest_stand_next_to_the_host():
    assert drawn(
        member('web/0', 'a', zone='west', power='p1'),
        member('web/1', 'b', zone='west', power='p2'),
        member('web/2', 'c', zone='east', power='p1'),
    ) == [
        'the cloud',
        '├── zone west',
        '│   ├── host a (power p1)',
        '│   │   └── web/0  planned',
        '│   └── host b (power p2)',
        '│       └── web/1  planned',
        '└── zone east',
        '    └── host c (power p1)',
        '        └── web/2  planned',
    ]


FEEDS = DomainTopology(orders=['host < power_feed', 'room < hall']).below


@each(
    'feeds, below',
    [
        pytest.param(('p1', 'p2', 'p1'), None, id='members show it'),
        pytest.param(('p1', 'p2', 'p1'), FEEDS, id='members and configuration show it'),
        pytest.param(('p1', 'p1', 'p1'), FEEDS, id='the configuration shows it'),
    ],
)
def test_a_level_that_does_not_nest_is_not_the_widest(feeds, below):
    members = [
        member(f'web/{number}', f'h{number}', rack=rack, room='m1', zone='west', power_feed=feed)
        for number, (rack, feed) in enumerate(zip(('r1', 'r1', 'r2'), feeds, strict=True))
    ]
    lines = group_pages.tree(plain(made(*members)), below).splitlines()
    assert lines[lines.index('') + 1 :] == [
        'the cloud',
        '└── zone west',
        '    └── room m1',
        '        ├── rack r1',
        f'        │   ├── host h0 (power_feed {feeds[0]})',
        '        │   │   └── web/0  planned',
        f'        │   └── host h1 (power_feed {feeds[1]})',
        '        │       └── web/1  planned',
        '        └── rack r2',
        f'            └── host h2 (power_feed {feeds[2]})',
        '                └── web/2  planned',
    ]


@each(
    'domains, found',
    [
        pytest.param([], ([], []), id='nobody'),
        pytest.param([{'host': 'a'}], ([], []), id='only hosts'),
        pytest.param(
            [{'host': 'a', 'rack': 'r', 'room': 'm', 'zone': 'z', 'power_feed': 'p', 'hall': 'h'}],
            (['zone', 'room', 'rack'], ['power_feed', 'hall']),
            id='of equal chains the first',
        ),
        pytest.param(
            [
                {'host': 'a', 'rack': 'r', 'room': 'm1', 'zone': 'z', 'hall': 'h'},
                {'host': 'b', 'rack': 'r', 'room': 'm2', 'zone': 'z', 'hall': 'h'},
            ],
            (['zone', 'rack'], ['room', 'hall']),
            id='a rack in two rooms',
        ),
        pytest.param(
            [{'host': 'a', 'rack': 'r', 'floor': 'f'}],
            (['floor', 'rack'], []),
            id='a level that is not known',
        ),
    ],
)
def test_levels_that_nest(domains, found):
    assert group_pages.levels([{'domains': one} for one in domains], FEEDS) == found


def test_nodes_of_a_host_and_members_that_are_nowhere():
    assert drawn(
        member('web/0', 'a', nodename='n1'),
        member('web/1', None, 'unplaced'),
        member('[x]', 'a', nodename='n2'),
    ) == [
        'the cloud',
        '├── host a / n1',
        '│   └── web/0  planned',
        '└── host a / n2',
        '    └── [x]  planned',
        'Nowhere: web/1',
    ]


def test_no_member_has_a_host():
    assert drawn(member('web/0', None, 'unplaced')) == ['Nowhere: web/0']


@each(
    'facts, status',
    [
        ({}, 'planned, generation 1, serial 3, made'),
        ({'dry_run': True, 'uuid': None}, 'a dry run, nothing is changed, planned'),
        ({'expires_at': MOMENT}, 'the plan expires'),
    ],
)
def test_the_head_of_a_page(facts, status):
    members = member('web/0'), member('web/1', 'b', 'pending', uuid_of('s'))
    text = group_pages.page(plain(made(*members, **facts)))
    lines = text.splitlines()
    assert lines[0] == f'Group       {facts.get("uuid", uuid_of("group")) or "none yet"}'
    assert lines[1:3] == ['Name        shop', 'Project     p']
    assert status in ' '.join(lines[3:5])
    assert 'Members     2: 1 planned, 1 pending' in lines
    assert ['web/1', 'pending', 'b', '-', uuid_of('s')] in cells(text)


def test_moves_and_warnings():
    facts = {'path': 'web/0', 'instance_uuid': uuid_of('s'), 'reason': 'anti-affinity'}
    move = objects.GroupMove(from_host=None, to_host='b', **facts)
    text = group_pages.page(plain(made(moves=[move], warnings=['one node reports no rack'])))
    assert cells(text)[-1] == ['web/0', '-', 'b', uuid_of('s'), 'anti-affinity']
    assert text.endswith('\n\nWarning: one node reports no rack')


def test_a_list():
    bare = made()
    for name in ('template', 'parameters', 'members', 'moves'):
        delattr(bare, name)
    text = group_pages.listing([plain(bare)])
    assert cells(text)[1][:5] == [uuid_of('group'), 'shop', 'p', 'planned', '1']
    assert 'members' not in group_pages.plain(bare)


def test_what_json_holds_is_documented():
    move = objects.GroupMove(path='x', instance_uuid=None, from_host='a', to_host='b', reason='so')
    found = group_pages.plain(made(member('web/0'), moves=[move]))
    assert json.loads(json.dumps(found)) == found
    assert found['created_at'] == '2026-11-21T00:00:00+00:00'
    page = (PACKAGE.parent / 'doc/source/command-line.rst').read_text()
    names = keys(found) | set(
        'ok error contradiction where line column why policies deleted refused details flavor '
        'vcpus memory_mb disk_gb kind level others weight most min_domains max_skew'.split()
    )
    assert [name for name in sorted(names - {'host'}) if f'``{name}``' not in page] == []


def test_a_refusal_says_why_in_lines_that_can_be_read():
    text = group_pages.refusal(errors.GroupRefused('no room ' * 40, {}))
    assert text.startswith('nova-sched-manage: The group cannot be placed. no room')
    assert max(map(len, text.splitlines())) <= 110


# Templates.


@pytest.fixture
def file(tmp_path):
    made = tmp_path / 'shop.yaml'
    made.write_text(TEMPLATE)
    return made


def test_a_template_that_makes_sense(manage, file, monkeypatch):
    status, out, err = manage('group validate', str(file))
    assert (status, err) == (0, '')
    assert out.splitlines()[-1] == '2 members, 1 policy.'
    assert ['app/web/1', 'inline', '2', '512', '10', '-'] in cells(out)
    assert cells(out)[-1][1:] == ['anti-affinity', 'host', '2', 'at most 1 in one', 'required']
    monkeypatch.setattr('sys.stdin', io.StringIO(TEMPLATE))
    assert manage('group validate -').out == out
    account = json.loads(manage('group validate --format json', str(file)).out)
    assert (account['ok'], account['error'], account['warnings']) == (True, None, [])
    assert account['contradiction'] is None
    assert [row['path'] for row in account['members']] == ['app/web/0', 'app/web/1']
    assert account['policies'][0]['members'] == ['app/web/0', 'app/web/1']


COLLIDING = ('level: host}', 'level: zone}, {type: affinity, level: host}')


def test_policies_that_can_be_kept_nowhere(manage, file):
    file.write_text(TEMPLATE.replace(*COLLIDING))
    status, out, err = manage('group validate', str(file))
    assert (status, err) == (1, '')
    assert 'Contradiction: ' in out
    assert 'app: anti-affinity at zone' in out
    found = json.loads(manage('group validate --format json', str(file)).out)
    assert (found['ok'], found['error'], len(found['members'])) == (False, None, 2)
    assert 'app: affinity at host' in found['contradiction']


def test_a_rack_may_span_zones_if_no_scheduler_is_asked(manage, file):
    """Which levels lie in each other is the cluster's, and not the configuration's."""
    file.write_text(
        TEMPLATE.replace('level: host}', 'level: zone}, {type: affinity, level: rack}')
    )
    status, out, _ = manage('group validate', str(file))
    assert (status, 'Contradiction' in out) == (0, False)


@each(
    'options, members',
    [
        ('--parameter count=3', 3),
        ('--parameters {tmp}/p.yaml', 4),
        ('--parameters {tmp}/p.yaml --parameter count=5', 5),  # the single one goes first
    ],
)
def test_parameters(manage, file, tmp_path, options, members):
    (tmp_path / 'p.yaml').write_text('count: 4\n')
    result = manage(f'group validate {options.format(tmp=tmp_path)} --format json', str(file))
    assert len(json.loads(result.out)['members']) == members


def test_flavors_of_the_configuration_and_of_the_line(manage, file, tmp_path):
    file.write_text(TEMPLATE.replace('{vcpus: 2, ram: 512, disk: 10}', 'small'))
    (tmp_path / 'all.yaml').write_text('small: {vcpus: 3, ram: 512}\n')
    (tmp_path / 'own.yaml').write_text('small: {vcpus: 4, ram: 512}\n')
    config = f'[groups]\nflavors = {tmp_path}/all.yaml\n'
    for more, vcpus in ([], 3), (['--flavors', f'{tmp_path}/own.yaml'], 4):
        result = manage('group validate --format json', str(file), *more, config=config)
        assert {row['vcpus'] for row in json.loads(result.out)['members']} == {vcpus}
    status, _, err = manage('group validate', str(file))
    assert status == 1
    assert 'there is no flavor small' in err


def test_levels_of_the_configuration(manage, file):
    file.write_text(TEMPLATE.replace('level: host', 'level: power_feed'))
    config = '[topology]\norders = host < power_feed\n'
    assert manage('group validate', str(file), config=config).status == 0
    assert (
        'power_feed is not one of host, rack, room, zone'
        in manage('group validate', str(file)).err
    )


@each(
    'change, place, why',
    [
        (('anti-affinity', 'hate'), '17:25:', 'resources.app.properties.policies.0.type'),
        (('members: [web]', 'members: [wed]'), '16:17:', 'wed'),
        (('resources:', 'resources: ]'), '4:12:', 'parsing'),
        (('default: 2', 'default: 0'), '4:1:', 'resources: there is no member'),
        (
            ('disk: 10}', "disk: 10, extra_specs: {'hw:numa_nodes': 3}}"),
            '',
            'member app/web/0, hw:numa_nodes: 2 CPUs and 512 MiB do not make 3 equal cells',
        ),
        (
            ('disk: 10}', "disk: 10, extra_specs: {'pci_passthrough:alias': 'gpu:1'}}"),
            '',
            "member app/web/0, pci_passthrough:alias: there is no alias 'gpu'",
        ),
        (
            (
                f'{{get_param: count}}{SERVER}',
                f'900{SERVER}          scheduler_hints: {{a: {"x" * 20_000}}}\n',
            ),
            '',
            'its members and policies have',
        ),
    ],
)
def test_a_template_that_makes_no_sense(manage, file, change, place, why):
    file.write_text(TEMPLATE.replace(*change))
    status, out, err = manage('group validate', str(file))
    assert (status, out) == (1, '')
    assert err.startswith(f'{file}:{place} ')
    assert why in err
    account = json.loads(manage('group validate --format json', str(file)).out)
    assert account['ok'] is False
    numbers = [account['error'][name] for name in ('line', 'column')]
    assert ''.join(f'{number}:' for number in numbers if number) == place


@each(
    'words, why',
    [
        ('validate {tmp}/none.yaml', '{tmp}/none.yaml: No such file or directory'),
        ('create {tmp}/none.yaml', 'No such file'),
        ('validate {tmp}/shop.yaml --flavors {tmp}/none.yaml', 'No such file'),
        ('validate {tmp}/shop.yaml --images {tmp}/list.yaml', 'no mapping'),
        ('validate {tmp}/shop.yaml --parameters {tmp}/x.yaml', 'line'),
    ],
)
def test_files_that_are_no_good(manage, file, tmp_path, words, why):
    (tmp_path / 'list.yaml').write_text('[]')
    (tmp_path / 'x.yaml').write_text('{')
    status, out, err = manage(f'group {words.format(tmp=tmp_path)}')
    assert (status, out) == (1, '')
    assert why.format(tmp=tmp_path) in err
    assert not any(word in err for word in ('Errno', 'Invalid request'))


def test_every_verb_of_the_contract_is_there():
    assert {name for name, *_ in group.VERBS} == {
        'create', 'show', 'list', 'update', 'delete', 'plan', 'validate', 'renew', 'topology',
    }  # fmt: skip


def test_no_answer(manage):
    config = '[DEFAULT]\ntransport_url = fake://nobody\n'
    status, out, err = manage(f'group show {uuid_of("x")} --timeout 1', config=config)
    assert (status, out) == (1, '')
    assert 'No answer to show' in err
