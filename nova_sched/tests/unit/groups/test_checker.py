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
"""What the checker of placements says of small ones whose answers are known."""

import pytest

from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    APART,
    EXCLUSIVE,
    NEAR,
    SPREAD,
    GroupPolicy,
)
from nova_sched.tests import checker

# Six hosts, two in each rack.
RACKS = {'h1': 'r1', 'h2': 'r1', 'h3': 'r2', 'h4': 'r2', 'h5': 'r3', 'h6': 'r3'}
DOMAINS = {'host': {host: host for host in RACKS}, 'rack': RACKS}


def policy(kind, level, a, b='', **rest):
    return GroupPolicy('the policy', kind, level, tuple(a), tuple(b), **rest)


def cluster(free=4, occupied=(), **own):
    return checker.Cluster(
        {host: own.get(host, {'VCPU': free}) for host in RACKS}, DOMAINS, occupied
    )


def placement(**hosts):
    return {path: f'h{number}' for path, number in hosts.items()}


@pytest.mark.parametrize(
    'rule, hosts, times',
    [
        pytest.param(policy(AFFINITY, 'rack', 'ab'), placement(a=1, b=2), 0, id='affinity kept'),
        pytest.param(
            policy(AFFINITY, 'host', 'abc'), placement(a=1, b=2, c=3), 2, id='two hosts more'
        ),
        pytest.param(
            policy(AFFINITY, 'rack', 'a'), placement(a=1, b=3), 0, id='others are no matter'
        ),
        pytest.param(
            policy(ANTI_AFFINITY, 'host', 'ab'), placement(a=1, b=2), 0, id='anti-affinity kept'
        ),
        pytest.param(
            policy(ANTI_AFFINITY, 'rack', 'abc'), placement(a=1, b=2, c=2), 2, id='two too many'
        ),
        pytest.param(
            policy(ANTI_AFFINITY, 'rack', 'abc', most=2),
            placement(a=1, b=2, c=3),
            0,
            id='two each',
        ),
        pytest.param(
            policy(SPREAD, 'rack', 'ab', min_domains=3), placement(a=1, b=3), 1, id='a rack short'
        ),
        pytest.param(
            policy(SPREAD, 'rack', 'abcd', max_skew=1),
            placement(a=1, b=1, c=1, d=3),
            1,
            id='skewed by one',
        ),
        pytest.param(
            policy(SPREAD, 'rack', 'abc', max_skew=0),
            placement(a=1, b=2, c=2),
            0,
            id='empty racks are no skew',
        ),
        pytest.param(
            policy(SPREAD, 'rack', 'abcd', min_domains=3, max_skew=1),
            placement(a=1, b=1, c=1, d=3),
            2,
            id='short and skewed',
        ),
        pytest.param(policy(EXCLUSIVE, 'rack', 'ab'), placement(a=1, b=2, c=3), 0, id='alone'),
        pytest.param(
            policy(EXCLUSIVE, 'rack', 'ab'), placement(a=1, b=5, c=2), 1, id='with a member'
        ),
        pytest.param(
            policy(EXCLUSIVE, 'rack', 'a'),
            placement(a=3),
            1,
            id='with an outsider on the next host',
        ),
        pytest.param(
            policy(EXCLUSIVE, 'host', 'a'), placement(a=3), 0, id='the outsider has another host'
        ),
        pytest.param(policy(NEAR, 'rack', 'ab', 'c'), placement(a=1, b=2, c=2), 0, id='near'),
        pytest.param(
            policy(NEAR, 'rack', 'ab', 'c'), placement(a=1, b=2, c=3), 2, id='two are not near'
        ),
        pytest.param(
            policy(NEAR, 'rack', 'a', 'bc'), placement(a=1, b=1, c=5), 0, id='near is one way'
        ),
        pytest.param(policy(APART, 'rack', 'ab', 'c'), placement(a=1, b=3, c=5), 0, id='apart'),
        pytest.param(
            policy(APART, 'rack', 'ab', 'cd'),
            placement(a=1, b=3, c=2, d=4),
            2,
            id='two racks shared',
        ),
        pytest.param(policy(AFFINITY, 'rack', ''), placement(a=1), 0, id='a policy on nobody'),
    ],
)
def test_policies(rule, hosts, times):
    world = cluster(occupied=['h4'])
    assert checker.breaches(rule, hosts, world) == times
    needs = {path: checker.Need([{'VCPU': 1}]) for path in hosts}
    assert len(checker.violations(hosts, needs, [rule], world)) == (times > 0)


def test_a_preferred_policy_costs_its_weight_each_time():
    rules = [
        policy(ANTI_AFFINITY, 'rack', 'abc', weight=2.0),
        policy(AFFINITY, 'host', 'ab', weight=0.5),
        policy(AFFINITY, 'host', 'abc'),
    ]
    assert checker.cost(placement(a=1, b=2, c=2), rules, cluster()) == 2 * 2.0 + 0.5


EITHER = checker.Need([{'cell 0': 2}, {'cell 1': 2}])
ONE = checker.Need([{'VCPU': 1}])


@pytest.mark.parametrize(
    'needs, hosts, known, wrong',
    [
        pytest.param(
            {'a': ONE, 'b': ONE}, placement(a=1, b=1), cluster(free=2), 0, id='exact fit'
        ),
        pytest.param(
            {'a': ONE, 'b': ONE}, placement(a=1, b=1), cluster(free=1), 1, id='one too many'
        ),
        pytest.param(
            {'a': ONE}, placement(a=1), cluster(free=-1), 1, id='more used than there is'
        ),
        pytest.param(
            {'a': ONE},
            placement(a=1),
            cluster(h1={'VCPU': 1, 'DISK_GB': -5}),
            0,
            id='short of what nobody asks for',
        ),
        pytest.param(
            {'a': EITHER, 'b': EITHER},
            placement(a=1, b=1),
            cluster(h1={'cell 0': 3, 'cell 1': 3}),
            0,
            id='a cell each',
        ),
        pytest.param(
            {'a': EITHER, 'b': EITHER},
            placement(a=1, b=1),
            cluster(h1={'cell 0': 3, 'cell 1': 1}),
            1,
            id='no two cells',
        ),
        pytest.param(
            {'a': checker.Need(ONE.ways, {'h2'})}, placement(a=1), cluster(), 1, id='filtered out'
        ),
        pytest.param(
            {name: checker.Need(ONE.ways, kind='k', caps={'h1': 1}) for name in 'ab'},
            placement(a=1, b=1),
            cluster(),
            1,
            id='more of a kind than the host takes',
        ),
        pytest.param(
            {'a': checker.Need(ONE.ways, (), stays='h1')},
            placement(a=1),
            cluster(free=0),
            0,
            id='who stays needs nothing',
        ),
        pytest.param(
            {'a': checker.Need(ONE.ways, stays='h1')}, placement(a=2), cluster(), 1, id='moved'
        ),
        pytest.param(
            {'a': ONE, 'b': ONE}, placement(a=1), cluster(), 1, id='somebody has no host'
        ),
        pytest.param({'a': ONE}, placement(a=9), cluster(), 1, id='no such host'),
    ],
)
def test_hosts_and_room(needs, hosts, known, wrong):
    assert len(checker.violations(hosts, needs, [], known)) == wrong
