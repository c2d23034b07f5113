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
"""Plans that would exceed the quota of their project."""

import collections
from concurrent import futures

import pytest

from nova_sched import errors
from nova_sched.engine.groups.operations import limits_of
from nova_sched.groups.definition import EXCLUSIVE, GroupPolicy
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.engine.groups.group_cloud import (
    BIG,
    SMALL,
    SOURCE,
    cloud,
    definition,
    members,
)


def limited(**most):
    """A cloud of eight hosts, of which each project may use so much."""
    named = {name.replace('planned_VCPU', 'planned_class:VCPU'): n for name, n in most.items()}
    return cloud(8, limits=lambda project: named)


def some(*paths, flavor=SMALL, closed=()):
    """Servers, and a rack for each of ``closed`` alone."""
    policies = [GroupPolicy('alone', EXCLUSIVE, 'rack', tuple(closed))] if closed else []
    return definition(members(*paths, flavor=flavor), *policies)


def exceeded(work, *args, **words):
    with pytest.raises(errors.QuotaExceeded) as refused:
        work(*args, **words)
    return refused.value.args


@each('dry_run', [False, True], ids=['kept', 'for trial'])
@table(
    'limits, asked, wanted',
    {
        'no limit': ({}, some('a', 'b'), None),
        'exactly': ({'planned_servers': 2}, some('a', 'b'), None),
        'servers': ({'planned_servers': 1}, some('a', 'b'), ('planned_servers', 2, 0, 1)),
        'CPUs': (
            {'planned_VCPU': 9},
            some('a', 'b', flavor=BIG),
            ('planned_class:VCPU', 16, 0, 9),
        ),
        'members': ({'group_members': 1}, some('a', 'b'), ('group_members', 2, 0, 1)),
        'exclusive domains': (
            {'exclusive_domains': 0},
            some('a', closed=['a']),
            ('exclusive_domains', 1, 0, 0),
        ),
        'no domain is asked for': ({'exclusive_domains': 0}, some('a'), None),
    },
)
def test_create(limits, asked, wanted, dry_run):
    with limited(**limits) as made:
        if wanted is None:
            assert made.create(asked, dry_run=dry_run).status == 'planned'
            return
        assert exceeded(made.create, asked, dry_run=dry_run) == ('p', *wanted)
        assert (made.store.claims(), made.groups.list()) == ([], [])
        assert made.store.plan_usage('p') == {}
        # The host state has all of its capacity again.
        made.place('big', flavor=BIG)


def test_an_update_counts_what_it_adds():
    with limited(planned_servers=3, group_members=3) as made:
        group = made.create(some('a', 'b'))
        made.groups.update(group.uuid, some('a', 'b', 'c'), SOURCE)
        wanted = ('p', 'group_members', 1, 3, 3)
        assert exceeded(made.groups.update, group.uuid, some(*'abcd'), SOURCE) == wanted
        assert sorted(made.places(group)) == ['a', 'b', 'c']
        made.groups.update(group.uuid, some('a', 'd', 'e'), SOURCE)
        assert sorted(made.places(group)) == ['a', 'd', 'e']


def test_a_changed_flavor_counts_the_difference():
    with limited(planned_VCPU=10) as made:
        group = made.create(some('a', flavor=BIG))
        bigger = definition(members('a', flavor=BIG) | members('b', flavor=SMALL))
        made.groups.update(group.uuid, bigger, SOURCE)
        both = definition(members('a', 'b', flavor=BIG))
        wanted = ('p', 'planned_class:VCPU', 6, 10, 10)
        assert exceeded(made.groups.update, group.uuid, both, SOURCE) == wanted


def test_a_built_server_is_not_planned_any_more():
    with limited(planned_servers=2) as made:
        group = made.create(some('a', 'b'))
        made.build(group, 'a')
        assert made.store.plan_usage('p')['planned_servers'] == 1
        made.create(some('c'))
        assert exceeded(made.create, some('d')) == ('p', 'planned_servers', 1, 2, 2)


@each('call', ['renew', 'replan'])
def test_what_adds_nothing_is_not_refused(call):
    most = {'planned_servers': 2}
    with cloud(8, limits=lambda project: most) as made:
        group = made.create(some('a', 'b'))
        most['planned_servers'] = 1
        if call == 'renew':
            made.groups.renew(group.uuid, 600)
        else:
            made.groups.plan(group.uuid, replan=True)
        assert len(made.store.group_claims(group.uuid)) == 2


def test_a_plan_that_has_expired_counts_when_it_is_made_again():
    with limited(planned_servers=2) as made:
        group = made.create(some('a', 'b'), ttl_s=10)
        made.store.expire(made.world.now_s + 11)
        other = made.create(some('c'))
        wanted = ('p', 'planned_servers', 2, 1, 2)
        assert exceeded(made.groups.plan, group.uuid, replan=True) == wanted
        made.groups.delete(other.uuid)
        made.groups.plan(group.uuid, replan=True)


def test_a_member_whose_group_cannot_be_planned_again_is_refused():
    with limited(planned_servers=2) as made:
        group = made.create(some('a', 'b'), ttl_s=10)
        made.store.expire(made.world.now_s + 11)
        made.create(some('c'))
        with pytest.raises(errors.MemberRefused, match='2 planned_servers asked, 1 of 2 used'):
            made.build(group, 'a')


def test_groups_at_the_same_time():
    with limited(planned_servers=4) as made:

        def ask(name):
            try:
                return made.create(some(f'{name}/0', f'{name}/1')).status
            except errors.QuotaExceeded:
                return 'refused'

        with futures.ThreadPoolExecutor(6) as pool:
            found = collections.Counter(pool.map(ask, 'abcdef'))
        assert found == {'planned': 2, 'refused': 4}
        assert made.store.plan_usage('p')['planned_servers'] == 4


class Registered(dict):
    """Limits as those of Keystone: 0 for the others."""

    def get(self, name, default=None):
        return super().get(name, 0)


@table(
    'project, found, wanted',
    {
        'those of servers': ('p', {'servers': 3, 'class:VCPU': 4}, {}),
        'none': ('p', {'group_members': -1}, {}),
        'a limit': ('p', {'planned_class:X': 0}, {'planned_class:X': 0}),
        'a group of no project': (None, {'group_members': 1}, {}),
        'what is not registered': ('p', Registered(servers=3), {}),
    },
)
def test_limits_of(project, found, wanted):
    assert limits_of(lambda _: found, project) == wanted
