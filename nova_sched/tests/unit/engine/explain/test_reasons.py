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
"""Tests of explanations: what each rule did, the reason for users, the line in the log, the
winners."""

import dataclasses
import json

import numpy as np

from nova_sched.engine.decide import CandidateSet, survivors
from nova_sched.engine.explain import reasons
from nova_sched.state.request import MemberPlacement, RequestedDestination
from nova_sched.tests.builders import cluster, request
from nova_sched.tests.rows import table
from nova_sched.tests.unit.engine.world import Named, rules


class Talker(Named):
    """Keeps hosts by name, says why, and which one came nearest."""

    def why(self, hosts, request, rows):
        return f'{len(rows)} are not as wanted'

    def nearest(self, hosts, request, rows):
        return rows[-1]


class Tongueless(Named):
    """Cannot say why."""

    def why(self, hosts, request, rows):
        raise ZeroDivisionError

    nearest = why


def refused(made, chain, **words):
    """The error of a request for which nothing is left."""
    asked = request(**words)
    candidates = survivors(chain, made.hosts, asked)
    assert not candidates.left
    return reasons.refusal(candidates, chain, made.hosts, asked)


def talkers(*names):
    """A chain of rules A, B, ... which keep these hosts each."""
    return rules(
        [Talker(*some, name=name) for name, some in zip('ABC', names, strict=False)], always_on=[]
    )


class TestReplay:
    def test_each_rule_in_order_until_no_host_is_left(self):
        told = reasons.replay(
            talkers(['host-0', 'host-1', 'host-2'], ['host-0'], []), cluster(4).hosts, request()
        )
        assert [one.to_dict() for one in told] == [
            {
                'filter': 'A',
                'seen': 4,
                'left': 3,
                'why': '1 are not as wanted',
                'removed': ['host-3'],
                'nearest': 'host-3',
                'nearest_why': '1 are not as wanted',
            },
            {
                'filter': 'B',
                'seen': 3,
                'left': 1,
                'why': '2 are not as wanted',
                'removed': ['host-1', 'host-2'],
                'nearest': 'host-2',
                'nearest_why': '1 are not as wanted',
            },
            {
                'filter': 'C',
                'seen': 1,
                'left': 0,
                'why': '1 are not as wanted',
                'removed': ['host-0'],
                'nearest': 'host-0',
                'nearest_why': '1 are not as wanted',
            },
        ]

    def test_a_rule_that_removed_no_host_says_nothing(self):
        (told,) = reasons.replay(talkers(['host-0']), cluster(1).hosts, request())
        assert (told.seen, told.left, told.why, told.removed, told.nearest) == (1, 1, '', (), None)

    def test_the_hosts_that_the_policies_of_a_group_leave_out(self):
        made = cluster(2)
        placement = MemberPlacement(
            'group', 'web', 'consumer', 1, np.array([True, False]), lambda row: {}, is_built=True
        )
        asked = dataclasses.replace(request(), member_placement=placement)
        left, last = reasons.replay(talkers([]), made.hosts, asked)
        assert (left.name, left.removed) == ('top_group', ('host-1',))
        assert left.why == 'the policies of its group do not allow the member there'
        assert (last.seen, last.left) == (1, 0)

    def test_only_some_hosts_are_named(self):
        (told,) = reasons.replay(talkers([]), cluster(50).hosts, request())
        assert (told.gone, len(told.removed)) == (50, reasons.MAX_NAMED)

    def test_a_rule_that_cannot_say_why_is_no_failure(self, caplog):
        (told,) = reasons.replay(rules([Tongueless()], always_on=[]), cluster(2).hosts, request())
        assert (told.gone, told.why, told.nearest) == (2, '', None)
        assert 'cannot say why' in caplog.text

    @table(
        'words, step, why',
        {
            'host': (
                {'destination': RequestedDestination(host='host-1')},
                'requested_destination',
                'the request names host host-1',
            ),
            'unknown host': (
                {'destination': RequestedDestination(host='nowhere')},
                'requested_destination',
                'the request names host nowhere, which is not known',
            ),
            'no node of the host': (
                {'destination': RequestedDestination(host='host-1', node='host-2')},
                'requested_destination',
                'the request names node host-2 of host host-1, which is not known',
            ),
            'node': (
                {'destination': RequestedDestination(node='host-2')},
                'requested_destination',
                'the request names node host-2',
            ),
            'cell': (
                {'destination': RequestedDestination(cell_uuid='x')},
                'requested_cell',
                'another cell is asked for',
            ),
            'no candidate': (
                {'allocation_requests': {'elsewhere': '{}'}},
                'allocation_candidates',
                'Placement has no allocation candidate there',
            ),
            'ignored': (
                {'ignore_hosts': ['host-0']},
                'ignore_hosts',
                'the request leaves them out',
            ),
            'forced, one known': (
                {'force_hosts': ['HOST-0', 'x', 'y']},
                'force_hosts',
                'the request names hosts host-0, x, y; x, y are not known',
            ),
            'forced': (
                {'force_hosts': ['x', 'y']},
                'force_hosts',
                'the request names hosts x, y, none of which is known',
            ),
            'both known': (
                {'force_hosts': ['host-0', 'host-2']},
                'force_hosts',
                'the request names hosts host-0, host-2',
            ),
            'many forced': (
                {'force_hosts': [f'x{number}' for number in range(100, 112)]},
                'force_hosts',
                (
                    'the request names hosts x100, x101, x102, x103, x104 and 7 more, '
                    'none of which is known'
                ),
            ),
            'forced node': (
                {'force_nodes': ['host-2']},
                'force_nodes',
                'the request names node host-2',
            ),
            'unknown node': (
                {'force_nodes': ['Host-2']},
                'force_nodes',
                'the request names node Host-2, which is not known',
            ),
        },
    )
    def test_what_the_caller_allowed(self, words, step, why):
        told = reasons.replay(rules(always_on=[]), cluster(3).hosts, request(**words))
        assert [(one.name, one.why) for one in told] == [(step, why)]


class TestReason:
    @table(
        'chain, words, reason',
        {
            'one rule': (
                talkers([]),
                {},
                'Of 3 hosts, A removed the last 3: 3 are not as wanted.',
            ),
            'what came before it': (
                talkers(['host-0', 'host-1'], ['host-0', 'host-1'], []),
                {},
                (
                    'Of 3 hosts, C removed the last 2: 2 are not as wanted. '
                    'Before that, A removed 1: 1 are not as wanted.'
                ),
            ),
            'without a word': (
                rules([Named()], always_on=[]),
                {},
                'Of 3 hosts, Named removed the last 3.',
            ),
            'the caller allows nobody': (
                talkers([]),
                {'force_hosts': ['elsewhere']},
                (
                    'Of 3 hosts, force_hosts removed the last 3: the request names '
                    'host elsewhere, which is not known.'
                ),
            ),
        },
    )
    def test_reason(self, chain, words, reason):
        error = refused(cluster(3), chain, **words)
        assert error.reason == f'There are not enough hosts available. {reason}'
        assert error.details['reason'] == error.reason

    def test_words_that_no_rule_knows_stand_alone(self):
        error = refused(cluster(3), rules(), unsupported=('accel:x',))
        assert error.reason == 'The request asks for what no rule knows: accel:x.'

    def test_no_hosts(self):
        error = refused(cluster(0), talkers([]))
        assert (
            error.reason
            == 'There are not enough hosts available. No compute node has reported yet.'
        )
        assert error.details['filters'] == []

    def test_a_reason_has_an_end(self):
        class Endless(Named):
            def why(self, hosts, request, rows):
                return 'on and ' * 1000

        reason = refused(cluster(3), rules([Endless()], always_on=[])).reason
        assert (len(reason), reason[-1]) == (reasons.MAX_REASON, '…')

    def test_hosts_that_passed_only_now(self):
        # The rules leave a host, but an earlier instance's round did not.
        error = reasons.refusal(
            CandidateSet(3),
            talkers(['host-0']),
            cluster(3).hosts,
            request(),
            with_hosts=1,
            instances=2,
        )
        assert error.reason == (
            'There are not enough hosts available. 1 of 2 instances found a host. '
            'Of 3 hosts, the last ones did not pass for an earlier instance of the request.'
        )

    def test_a_chain_that_breaks_when_asked_again(self, caplog):
        class Once(Named):
            def mask(self, hosts, request):
                if self.asked:
                    raise ZeroDivisionError
                return super().mask(hosts, request)

        error = refused(cluster(3), rules([Once()], always_on=[]))
        assert (
            error.reason
            == 'There are not enough hosts available. Of 3 hosts, Named removed the last 3.'
        )
        assert 'cannot be explained' in caplog.text

    def test_no_host_names_for_users_all_for_operators(self):
        chain = rules([Named('host-0'), Talker()], always_on=[])
        error = refused(cluster(3), chain, ignore_hosts=['host-2'])
        assert 'host-' not in error.reason
        assert [one['removed'] for one in error.details['filters']] == [
            ['host-2'],
            ['host-1'],
            ['host-0'],
        ]
        assert json.loads(json.dumps(error.details)) == error.details


@table(
    'words, line',
    {
        'one instance': ({}, 'none after A: 3 are not as wanted'),
        'several': (
            {'with_hosts': 2, 'instances': 5},
            '2 of 5 instances, then none after A: 3 are not as wanted',
        ),
    },
)
def test_in_short(words, line):
    error = reasons.refusal(CandidateSet(3), talkers([]), cluster(3).hosts, request(), **words)
    assert reasons.in_short(error.details) == line


@table(
    'number, told',
    {
        'none': (0, '3 are not as wanted.'),
        'one': (1, 'wanted. 1 more is left out: nova-sched-manage'),
        'two': (2, 'wanted. 2 more are left out: nova-sched-manage'),
    },
)
def test_hosts_of_the_cloud_that_are_left_out(number, told):
    made = cluster(3)
    made.hosts.left_out = number
    error = refused(made, talkers([]))
    assert told in error.reason
    assert 'left out' not in error.for_tenants
    assert ('left out' in error.reason) == bool(number)
