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
"""Questions: what becomes of a request, what each rule says of a host, how each node stood."""

import json

import numpy as np

from nova_sched.engine.explain.standings import Standing
from nova_sched.filters.foreign import ForeignFilter
from nova_sched.state.node import LEFT_OUT
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import NOW, report, request, uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.unit.engine.world import (
    B,
    Named,
    Score,
    World,
    asks,
    node,
    picture,
    rules,
)

REBUILD = {'_nova_check_type': ['rebuild']}


class Broken:
    """A filter as written for Nova, with a mistake in it."""

    def host_passes(self, host_state, spec_obj):
        raise KeyError('colour')


def world(chain=None, hosts=3, **words):
    made = World(chain=chain or rules([], [Score(1, 3, 2)]))
    made.report(*(report(f'host-{row}', **{'vcpus': 4, **words}) for row in range(hosts)))
    return made


def dry_run(made, *asked):
    """The answer; and that the question left no trace."""
    before = picture(made.cluster)
    figures = (made.scheduler.figures.placed, made.scheduler.figures.refused)
    found = made.call(made.scheduler.questions.dry_run, list(asked))
    assert picture(made.cluster) == before
    assert made.store.claims() == [
        claim for node in made.cluster for claim in node.claims.values()
    ]
    assert (made.scheduler.figures.placed, made.scheduler.figures.refused) == figures
    made.scheduler.decision_log.flush()
    assert made.scheduler.decision_log.show(None) == []
    assert json.loads(json.dumps(found)) == found
    return found


def why_not(made, asked, host='host-1'):
    before = picture(made.cluster)
    found = made.call(made.scheduler.questions.why_not, asked, host)
    assert picture(made.cluster) == before
    assert json.loads(json.dumps(found)) == found
    return found


def verdicts(node):
    """rule -> verdict, without those that pass."""
    return {one['rule']: one['verdict'] for one in node['rules'] if one['verdict'] != 'passes'}


class TestDryRun:
    def test_a_request_that_finds_a_host(self):
        made = world(rules([Named('host-0', 'host-1')], [Score(1, 3, 2)]))
        found = dry_run(made, asks())
        assert (found['outcome'], found['reason'], found['hosts']) == ('placed', None, 3)
        (placed,) = found['placed']
        assert (placed['host'], placed['weights'][0]['raw']) == ('host-1', 3.0)
        assert [one['host'] for one in placed['alternates']] == ['host-0']
        assert [one['removed'] for one in found['filters'] if one['filter'] == 'Named'] == [
            ['host-2']
        ]
        assert made.place(asks()) == [['host-1']]

    def test_filters_tell_why_even_if_they_left_enough(self):
        made = world(vcpus=2)
        made.report(report('host-9', vcpus=1))
        (step,) = [
            one for one in dry_run(made, asks(vcpus=2))['filters'] if one['seen'] > one['left']
        ]
        assert (step['filter'], step['why']) == (
            'ResourceCapacity',
            '2 vCPUs asked, the host has 1 in all',
        )
        assert (step['nearest'], step['removed']) == ('host-9', ['host-9'])

    def test_a_refusal_is_an_answer(self):
        found = dry_run(world(), asks(vcpus=9))
        assert (found['outcome'], found['found'], found['placed']) == ('refused', 0, [])
        assert 'ResourceCapacity removed the last 3' in found['reason']

    def test_a_host_that_is_left_out_before_it_has_reported(self):
        made = world()
        made.cluster.set_service('new', True, f'{LEFT_OUT}no provider', False)
        found = why_not(made, asks(), 'new')
        assert found['nodes'] == []
        assert found['service']['disabled_reason'] == 'left out: no provider'

    def test_the_instances_own_claim_is_not_in_its_way(self):
        made = world(hosts=1)
        made.place(asks(vcpus=4))
        assert dry_run(made, asks(vcpus=4))['outcome'] == 'placed'
        assert dry_run(made, asks(B, vcpus=4))['outcome'] == 'refused'


class TestWhyNot:
    def test_every_rule_is_asked_whatever_the_others_said(self):
        made = world(rules([Named('host-0', name='First'), Named('host-0', name='Second')]))
        found = why_not(made, asks(vcpus=9, ignore_hosts=['host-1']))
        (node,) = found['nodes']
        assert (found['host'], node['node'], node['passes']) == ('host-1', 'host-1', False)
        assert verdicts(node) == dict.fromkeys(
            ['ignore_hosts', 'ResourceCapacity', 'First', 'Second'], 'refuses'
        )
        why = {one['rule']: one['why'] for one in node['rules'] if one['why']}
        assert why == {
            'ignore_hosts': 'the request leaves them out',
            'ResourceCapacity': '9 vCPUs asked, the host has 4 in all',
        }
        assert 'rank' not in node

    def test_what_the_caller_allows_is_judged_too(self):
        (node,) = why_not(world(), asks(force_hosts=['host-1', 'x']))['nodes']
        assert node['passes']
        (other,) = why_not(world(), asks(force_hosts=['host-1', 'x']), 'host-2')['nodes']
        assert verdicts(other) == {'force_hosts': 'refuses'}

    @table(
        'words, skipped',
        {
            'forced hosts skip filters': ({'force_hosts': ['host-1']}, {'Named', 'Other'}),
            'a rebuild asks only some': (
                {'hints': REBUILD},
                {rule.name for rule in rules().always} | {'Other'},
            ),
        },
    )
    def test_rules_that_are_not_asked(self, words, skipped):
        chain = rules([Named('host-1', rebuild=True), Named(name='Other')])
        (node,) = why_not(world(chain), asks(**words))['nodes']
        assert {
            rule for rule, verdict in verdicts(node).items() if verdict == 'not asked'
        } == skipped
        assert node['passes']

    def test_a_host_that_passes_is_compared_with_the_best(self):
        (node,) = why_not(world(), asks(), 'host-2')['nodes']
        assert (node['passes'], node['rank'], node['of'], node['weight']) == (True, 2, 3, 0.5)
        assert (node['weights'][0]['raw'], node['best']['weights'][0]['raw']) == (2.0, 3.0)
        assert (node['best']['host'], node['best']['node'], node['best']['weight']) == (
            'host-1',
            'host-1',
            1.0,
        )

    def test_each_node_of_a_host(self):
        made = world(hosts=0)
        made.report(report('ironic', nodename='one'), report('ironic', nodename='two', vcpus=1))
        nodes = why_not(made, asks(vcpus=2), 'ironic')['nodes']
        assert [(node['node'], node['passes']) for node in nodes] == [
            ('one', True),
            ('two', False),
        ]

    def test_an_operators_word_on_it(self):
        made = world()
        made.call(made.state_sync.set_service, 'host-1', True, 'broken fan', None, NOW)
        found = why_not(made, asks())
        assert found['service'] == {
            'disabled': True,
            'disabled_reason': 'broken fan',
            'forced_down': False,
            'seen_s': NOW,
        }

    def test_a_rule_that_breaks_is_named(self):
        made = world(rules([ForeignFilter(Broken())]))
        (node,) = why_not(made, asks())['nodes']
        assert [one for one in node['rules'] if one['verdict'] == 'fails'] == [
            {'rule': 'Broken', 'verdict': 'fails', 'why': "'colour'"}
        ]
        assert not node['passes']

    def test_the_instances_own_claim_is_not_in_its_way(self):
        made = world(hosts=1)
        made.place(asks(vcpus=4))
        assert why_not(made, asks(vcpus=4), 'host-0')['nodes'][0]['passes']


class TestPassing:
    """Which nodes pass some of the rules that always run."""

    @table(
        'names, words, left',
        {
            'room': (['ResourceCapacity'], {'vcpus': 4}, [0, 2]),
            'none': (['ResourceCapacity'], {'vcpus': 5}, []),
            'another rule': (['RequiredTraits'], {'vcpus': 5}, [0, 1, 2]),
            'whatever the caller allows': (
                ['ResourceCapacity'],
                {'vcpus': 4, 'ignore_hosts': ['host-0']},
                [0, 2],
            ),
        },
    )
    def test_some_rules(self, names, words, left):
        made = world(rules([]), hosts=3)
        made.place(asks(B, destination=RequestedDestination('host-1')))
        uuids = [made.cluster.find(f'host-{row}', f'host-{row}').uuid for row in range(3)]
        asked = [*uuids, uuid_of('unknown')]
        found = made.call(made.scheduler.questions.passing, asks(**words), names, asked)
        assert found == [uuids[row] for row in left]


class TestRanking:
    """Hosts that another scheduler offers, in our order."""

    @table(
        'offered, words, found',
        {
            'none': ({}, {}, []),
            'the best one first, whatever was sent': (
                {('host-0', None): 9.0, ('host-1', None): 0.0, ('host-2', None): 0.0},
                {},
                ['host-1', 'host-2', 'host-0'],
            ),
            'by its node': ({('host-2', 'host-2'): 0.0, ('host-0', 'other'): 0.0}, {}, ['host-2']),
            'known ones': ({('host-2', None): 0.0, ('elsewhere', None): 5.0}, {}, ['host-2']),
            'none passes': ({('host-2', None): 0.0}, {'vcpus': 5}, []),
            'not those to leave out': (
                {('host-0', None): 0.0, ('host-1', None): 0.0},
                {'ignore_hosts': ['host-1']},
                ['host-0'],
            ),
        },
    )
    def test_the_order(self, offered, words, found):
        made = world()
        before = picture(made.cluster)
        assert made.call(made.scheduler.questions.ranking, asks(**words), offered) == found
        assert picture(made.cluster) == before

    def test_weights_that_were_sent_decide_between_equal_ones(self):
        made = world(rules([]))
        offered = {(f'host-{row}', None): weight for row, weight in enumerate([1.0, 3.0, 2.0])}
        found = made.call(made.scheduler.questions.ranking, asks(), offered)
        assert found == ['host-1', 'host-2', 'host-0']


def standings(filters=(), weighers=(), hosts=4, **asked):
    """The Standings of these hosts; and that the question changed nothing."""
    made = World(chain=rules(filters, weighers))
    made.report(*(report(f'host-{row}') for row in range(hosts)))
    before = picture(made.cluster)
    found = made.call(made.scheduler.questions.standings, request(**asked))
    assert picture(made.cluster) == before
    return found


@table(
    'host, standing',
    {
        'left out by the request': ('host-0', Standing('ignore_hosts')),
        'removed by a filter': ('host-1', Standing('Second')),
        'passes': ('host-2', Standing(rank=2, of=2)),
        'best': ('host-3', Standing(rank=1, of=2)),
        'unknown': ('host-9', None),
    },
)
def test_a_node(host, standing):
    chain = [Named('host-1', 'host-2', 'host-3'), Named('host-2', 'host-3', name='Second')]
    found = standings(chain, [Score(9, 9, 1, 2)], ignore_hosts=frozenset(['host-0']))
    assert found.of(node(host)) == standing


def test_after_the_last_host_no_filter_is_asked():
    after = Named('host-0', name='After')
    found = standings([Named(), after])
    assert {found.of(node(f'host-{row}')).filter for row in range(4)} == {'Named'}
    assert after.asked == 0


class Disk(Score):
    """Another weigher."""


@table(
    'better, worse, found',
    {
        'the one that prefers it most': ('host-3', 'host-1', ('Score', 2.0)),
        'the other way round': ('host-1', 'host-3', ('Disk', 1.0)),
        'the same node': ('host-1', 'host-1', None),
        'a node that did not pass': ('host-3', 'host-0', None),
        'an unknown node': ('host-9', 'host-3', None),
    },
)
def test_what_makes_the_difference(better, worse, found):
    weighers = [Score(0, 0, 1, 4, multiplier=2.0), Disk(0, 1, 0, 0)]
    made = standings([Named('host-1', 'host-2', 'host-3')], weighers)
    assert made.decisive(node(better), node(worse)) == found


def test_a_weigher_to_which_all_are_equal_is_not_kept():
    found = standings((), [Score(3, 3, 3, 3), Disk(1, 2, 3, 4)])
    assert list(found.parts) == ['Disk']
    assert found.parts['Disk'].dtype == np.float32
