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
"""Tests of the expected end of servers, and of the latest end on a host."""

import logging
import math

import pytest

from nova_sched.state import lifetime
from nova_sched.tests.builders import NOW, claim, cluster, report, request, uuid_of

A, B = uuid_of('a'), uuid_of('b')
LEASE = NOW + 5000.0


@pytest.fixture
def made():
    held = cluster(2)
    held.hosts.now_s = NOW
    return held


@pytest.mark.parametrize(
    'words, end_s',
    [
        pytest.param({}, None, id='nothing is said'),
        pytest.param({'hints': {'ttl': ['60']}}, NOW + 60, id='a lifetime'),
        pytest.param({'hints': {'ttl': [0.5]}}, NOW + 0.5, id='a short one'),
        pytest.param({'hints': {'lease_end': [LEASE]}}, LEASE, id='a lease'),
        pytest.param(
            {'hints': {'lease_end': ['2027-01-15T08:00:00Z']}}, NOW, id='a lease, as a date'
        ),
        pytest.param(
            {'hints': {'lease_end': ['2027-01-15T08:00:00']}}, NOW, id='without a zone: UTC'
        ),
        pytest.param({'hints': {'lease_end': ['20270115T080000Z']}}, NOW, id='in the basic form'),
        pytest.param(
            {'hints': {'lease_end': ['20270115']}}, NOW - 8 * 3600, id='eight digits are a date'
        ),
        pytest.param({'hints': {'lease_end': [''], 'ttl': [60]}}, NOW + 60, id='an empty lease'),
        pytest.param(
            {'hints': {'ttl': ['']}, 'extra_specs': {'nova_sched:ttl': '60'}},
            NOW + 60,
            id='an empty lifetime',
        ),
        pytest.param(
            {'hints': {'lease_end': ['2027-01-15T09:00:00+01:00']}}, NOW, id='in another zone'
        ),
        pytest.param(
            {'hints': {'lease_end': [LEASE], 'ttl': [60]}}, LEASE, id='a lease comes first'
        ),
        pytest.param({'extra_specs': {'nova_sched:ttl': '60'}}, NOW + 60, id='of the flavor'),
        pytest.param({'image_properties': {'nova_sched_ttl': 60}}, NOW + 60, id='of the image'),
        pytest.param(
            {'hints': {'ttl': [60]}, 'extra_specs': {'nova_sched:ttl': '90'}},
            NOW + 60,
            id='a hint before the flavor',
        ),
    ],
)
def test_the_end_that_a_request_tells(made, words, end_s):
    assert lifetime.end_s(made.hosts, request(**words)) == end_s


@pytest.mark.parametrize(
    'words, text',
    [
        pytest.param({'hints': {'ttl': ['an hour']}}, "'an hour' in the hint ttl", id='a word'),
        pytest.param({'hints': {'ttl': [-1]}}, "'-1' in the hint ttl", id='negative'),
        pytest.param({'hints': {'ttl': ['inf']}}, "'inf' in the hint ttl", id='infinite'),
        pytest.param({'hints': {'ttl': ['nan']}}, "'nan' in the hint ttl", id='not a number'),
        pytest.param(
            {'hints': {'lease_end': ['tomorrow']}}, "'tomorrow' in the hint lease_end", id='a day'
        ),
        pytest.param(
            {'extra_specs': {'nova_sched:ttl': '1h'}},
            "'1h' in the extra spec nova_sched:ttl",
            id='of the flavor',
        ),
    ],
)
def test_an_end_that_cannot_be_read_is_not_known(made, words, text, caplog):
    lifetime._seconds.cache_clear()
    lifetime._moment.cache_clear()
    with caplog.at_level(logging.WARNING):
        found = [lifetime.end_s(made.hosts, request(**words)) for _ in range(3)]
    assert found == [None] * 3
    assert caplog.text.count(text) == 1


def test_a_claim_has_the_end_of_its_request(made):
    made.consume(made.hosts.nodes[0], request(instance_uuid=A, hints={'ttl': [60]}))
    made.consume(made.hosts.nodes[1], request(instance_uuid=B))
    assert [made.claims_of(one)[0].ends_s for one in (A, B)] == [NOW + 60, None]
    assert made.hosts.exit_s.tolist() == [NOW + 60, math.inf]


def test_a_server_that_moves_keeps_its_end(made):
    wanted = request(instance_uuid=A, hints={'ttl': [60]})
    made.consume(made.hosts.nodes[0], wanted)
    made.hosts.now_s += 30
    made.consume(made.hosts.nodes[1], wanted)
    assert [claim.ends_s for claim in made.claims_of(A)] == [NOW + 60] * 2


def test_a_lease_that_was_extended_counts(made):
    node = made.hosts.nodes[0]
    made.consume(node, request(instance_uuid=A, hints={'lease_end': [LEASE]}))
    made.consume(node, request(instance_uuid=A, hints={'lease_end': [LEASE + 60]}))
    assert made.hosts.exit_s[0] == LEASE + 60


def test_the_latest_end_on_a_host(made):
    node = made.hosts.nodes[0]
    late = made.consume(node, request(instance_uuid=A, hints={'ttl': [90]}))
    made.consume(node, request(instance_uuid=B, hints={'ttl': [60]}))
    assert made.hosts.exit_s[0] == NOW + 90
    made.drop(late.claim)
    assert made.hosts.exit_s[0] == NOW + 60
    made.drop(made.claims_of(B)[0])
    assert made.hosts.exit_s[0] == 0.0


def test_a_host_with_a_server_of_unknown_end(made):
    node = made.hosts.nodes[0]
    unknown = made.consume(node, request(instance_uuid=A))
    made.consume(node, request(instance_uuid=B, hints={'ttl': [60]}))
    assert made.hosts.exit_s[0] == math.inf
    made.release(unknown)
    assert made.hosts.exit_s[0] == NOW + 60


@pytest.mark.parametrize('foreign, exit_s', [(0, NOW + 60), (1, math.inf)])
def test_the_end_of_a_node_as_the_store_has_it(made, foreign, exit_s):
    told = report('host-0')
    held = claim(A, told.node_uuid, ends_s=NOW + 60)
    made.put(told, [held], foreign_instances=foreign)
    assert made.hosts.exit_s[made.node(told.node_uuid).row] == exit_s
