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
"""A decision of the shadow, compared with what the cloud did."""

import dataclasses
import json

import pytest

from nova_sched import errors
from nova_sched.extensions.shadow.comparison import (
    OUTCOMES,
    PLACED,
    REFUSED,
    UNKNOWN,
    Choice,
    Choices,
    ShadowDecision,
    compared,
    moment,
)
from nova_sched.tests.builders import NOW, report, request, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.cloud.doubles import FakeCell, FakeCloud, FakePlacement
from nova_sched.tests.unit.engine.world import Named, Score, World, rules

A, B, CHILD = (uuid_of(name) for name in ('a', 'b', 'child'))


def node(host):
    return uuid_of(f'node {host}')


class FakeMirror:
    """Knows these hosts, and for which servers Nova waits."""

    def __init__(self, *hosts):
        self.hosts = {node(host): host for host in hosts}
        self.waiting = set()

    def host_of(self, uuid):
        return self.hosts.get(uuid)

    def waits_for_host(self, uuids):
        return not self.waiting.isdisjoint(uuids)


class Cloud:
    """Two hosts; host-1 has a child provider, and host-2 is not known to the mirror."""

    def __init__(self):
        self.cell, self.placement = FakeCell(), FakePlacement()
        self.placement.add('host-0', 'host-2')
        self.placement.add('host-1', children=[CHILD])
        self.mirror = FakeMirror('host-0', 'host-1')
        self.choices = Choices(FakeCloud(self.cell), self.placement, self.mirror)

    def find(self, *ignored):
        return self.choices.find(A, frozenset(ignored))


# The host of the allocations, the server in its cell, the hosts that the request leaves out, and
# the choice.
CHOICES = {
    'placed': ('host-0', None, (), Choice(PLACED, node('host-0'), 'host-0')),
    'on an unknown host': ('host-2', None, (), Choice(PLACED, node('host-2'))),
    'no server was made': (None, None, (), Choice(REFUSED)),
    'it stays': (None, {'host': 'host-0'}, ('host-0',), Choice(REFUSED)),
    'it has run': (None, {'host': 'host-0'}, (), Choice(PLACED, None, 'host-0')),
    'no build succeeded': (None, {'vm_state': 'error'}, (), Choice(UNKNOWN)),
    'it was deleted': (None, {'deleted': True}, (), Choice(UNKNOWN)),
    'it stays shelved': (None, {'vm_state': 'shelved_offloaded'}, (), Choice(REFUSED)),
}


def test_choices():
    choices = {}
    for name, (host, server, ignored, _) in CHOICES.items():
        cloud = Cloud()
        if host is not None:
            cloud.placement.allocate(A, host, VCPU=1)
        if server is not None:
            cloud.cell.serve(A, **server)
        choices[name] = cloud.find(*ignored)
    assert choices == {name: choice for name, (*_, choice) in CHOICES.items()}


def test_an_allocation_of_a_child_provider_only():
    cloud = Cloud()
    cloud.placement.trees[node('host-1')].allocations[CHILD] = {A: {'CUSTOM_MAGIC': 1}}
    assert cloud.find().host == 'host-1'


def test_an_evacuation_has_allocations_on_both_hosts():
    cloud = Cloud()
    cloud.mirror.waiting.add(A)
    assert cloud.find() is None  # Nova has not decided yet
    cloud.placement.allocate(A, 'host-0', VCPU=1)
    assert cloud.find('host-0') is None
    cloud.placement.allocate(A, 'host-1', VCPU=1)
    assert cloud.find('host-0').host == 'host-1'


def test_placement_does_not_answer():
    cloud = Cloud()
    problem = errors.PlacementUnavailable('away')
    with cloud.placement.failing(problem), pytest.raises(errors.PlacementUnavailable):
        cloud.find()


def standings():
    """A filter removes host-0 and host-4; host-1 is best, host-2 is the next, host-3 the last."""
    made = World(chain=rules([Named('host-1', 'host-2', 'host-3')], [Score(9, 8, 7, 1, 9)]))
    made.report(*(report(f'host-{row}') for row in range(5)))
    return made.call(made.scheduler.questions.standings, request())


def decision(*hosts, instances=(A,), **words):
    """Of these hosts; a refusal without any."""
    known = {
        'request_id': 'req-1',
        'project_id': 'project',
        'flavor': 'small',
        'instances': instances,
        'ignored': frozenset(),
        'is_check': False,
        'time_s': NOW,
        'took_s': 0.0021,
        'chosen': tuple((node(host), host) for host in hosts),
        'reason': None if hosts else 'There are not enough hosts available.',
        'standings': standings(),
    }
    return ShadowDecision(**{**known, **words})


def placed(host):
    return Choice(PLACED, node(host), host)


# Hosts of the shadow, the choice of the cloud, and what the comparison says.
SERVERS = {
    'same host': (['host-1'], placed('host-1'), {'outcome': 'same'}),
    'a worse host': (['host-1'], placed('host-3'),
                     {'outcome': 'passed', 'rank': 3, 'of': 3, 'weigher': 'Score', 'lead': 1.0}),
    'the shadow has taken the second best': (
        ['host-2'], placed('host-1'), {'outcome': 'among_best', 'rank': 1, 'of': 3}),
    'a host that a filter removes': (
        ['host-1'], placed('host-0'), {'outcome': 'filtered', 'filter': 'Named'}),
    'a host that is left out': (
        ['host-1'], placed('host-9'), {'outcome': 'left_out', 'why': 'no inventory'}),
    'a host that is left out since it was known': (
        ['host-1'], placed('host-4'), {'outcome': 'left_out', 'why': 'no mapping'}),
    'an unknown host': (
        ['host-1'], placed('host-8'), {'outcome': 'left_out', 'why': 'its node was not known'}),
    'refused': (['host-1'], Choice(REFUSED), {'outcome': 'cloud_refused'}),
    'refused by both': ([], Choice(REFUSED), {'outcome': 'both_refused'}),
    'refused by the shadow': (
        [], placed('host-0'), {'outcome': 'shadow_refused', 'filter': 'Named'}),
    'refused by the shadow, and gone': (
        [], Choice(PLACED, None, 'host-1'), {'outcome': 'shadow_refused'}),
    'same host, which the server has left': (
        ['host-1'], Choice(PLACED, None, 'host-1'), {'outcome': 'same'}),
    'unknown': (['host-1'], Choice(UNKNOWN), {'outcome': 'not_known'}),
    'not found in time': (['host-1'], None, {'outcome': 'not_known'}),
    'one of the best that the scheduler chooses from': (
        ['host-1'], placed('host-2'),
        {'outcome': 'among_best', 'rank': 2, 'of': 3, 'weigher': 'Score', 'lead': 0.142857},
        {'best': 2}),
    'the standings are not known': (
        ['host-1'], placed('host-2'), {'outcome': 'not_known'}, {'standings': None}),
    'a node whose host is not known': (
        ['host-1'], Choice(PLACED, node('host-8')),
        {'outcome': 'left_out', 'why': 'its node was not known'}),
}  # fmt: skip


def test_one_server():
    servers, calls, lines = {}, {}, {}
    for name, (hosts, choice, _, *words) in SERVERS.items():
        choices = {} if choice is None else {A: choice}
        left_out = {'host-9': 'no inventory', 'host-4': 'no mapping'}
        line = lines[name] = compared(decision(*hosts, **dict(*words)), choices, left_out)
        (servers[name],), calls[name] = line['servers'], line['outcome']
    assert servers == {
        name: {
            'instance_uuid': A,
            'shadow': hosts[0] if hosts else None,
            'cloud': choice and (choice.host or choice.node_uuid),
            **expected,
        }
        for name, (hosts, choice, expected, *_) in SERVERS.items()
    }
    assert calls == {name: expected['outcome'] for name, (_, _, expected, *_) in SERVERS.items()}
    assert json.loads(json.dumps(lines)) == lines


@each(
    'ours, cloud, outcomes',
    [
        ('1 2', '2 1', ['same', 'same']),  # in another order
        ('1 1', '1 2', ['same', 'passed']),
        ('1 1', '1 1', ['same', 'same']),
        ('1 2', '0 1', ['filtered', 'same']),
    ],
)
def test_servers_of_one_call_are_alike(ours, cloud, outcomes):
    made = decision(*(f'host-{name}' for name in ours.split()), instances=(A, B))
    choices = {
        uuid: placed(f'host-{name}') for uuid, name in zip((A, B), cloud.split(), strict=True)
    }
    line = compared(made, choices, {})
    assert [server['outcome'] for server in line['servers']] == outcomes
    assert line['outcome'] == max(outcomes, key=OUTCOMES.index)


def test_the_line_of_a_call():
    made = decision('host-1', unreadable=('Cell x',))
    line = compared(made, {A: placed('host-1')}, {})
    del line['servers']
    assert line == {
        'time': moment(NOW),
        'request_id': 'req-1',
        'project_id': 'project',
        'flavor': 'small',
        'outcome': 'same',
        'took_ms': 2.1,
        'reason': None,
        'unreadable': ['Cell x'],
    }
    whole = dataclasses.replace(made, unreadable=())
    assert 'unreadable' not in compared(whole, {}, {})
