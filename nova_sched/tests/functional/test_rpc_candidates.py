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
"""The namespace `candidates`: hosts are offered, callers carry their UUIDs, and claim by them."""

import datetime
import re

import pytest

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually, outcome, spec
from nova_sched.tests.options import settings

ONE, TWO = uuid_of('one'), uuid_of('two')
SECRET = 'correct-horse-battery-staple'


def hosts(offered):
    return [[one.host for one in found] for found in offered]


@pytest.fixture
def three(daemon):
    """A daemon with hosts a, b and c, that are liked in this order."""
    for host, memory_mb in (('a', 4096), ('b', 3072), ('c', 2048)):
        daemon.add(host, memory_mb=memory_mb, vcpus=2)
    return daemon


def offer(daemon, **words):
    """Candidates of the instance."""
    (found,) = daemon.candidates.select_candidates(spec(**words), [ONE])
    return found


def test_hosts_are_offered_best_first_and_nothing_is_claimed(three):
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    best, *rest = offer(three)
    assert isinstance(best, objects.Candidate)
    assert (best.instance_uuid, best.host, best.nodename) == (ONE, 'a', 'a')
    assert best.compute_node_uuid == uuid_of('node a')
    assert [(one.host, one.rank) for one in (best, *rest)] == [('a', 1), ('b', 2), ('c', 3)]
    assert 600 <= (best.expires_at - before).total_seconds() < 620
    assert three.table('claims') == []


@pytest.mark.parametrize(
    'count, found',
    [
        pytest.param(None, 3, id='all'),
        pytest.param(2, 2, id='some'),
        pytest.param(9, 3, id='many'),
    ],
)
def test_the_caller_says_how_many(three, count, found):
    with settings({'candidates.max': 3}):
        (offered,) = three.candidates.select_candidates(spec(), [ONE], count)
    assert len(offered) == found


def test_several_instances_see_the_earlier_ones_take_their_best(three):
    offered = three.candidates.select_candidates(spec(vcpus=2), [ONE, TWO])
    assert hosts(offered) == [['a', 'b', 'c'], ['b', 'c']]
    assert [[one.instance_uuid for one in found] for found in offered] == [[ONE] * 3, [TWO] * 2]


def test_missing_instance_uuids_are_made_up(three):
    offered = three.candidates.select_candidates(spec(num_instances=2, instance_uuid=ONE), count=1)
    assert hosts(offered) == [['a'], ['b']]
    claims = [three.candidates.claim_candidate(found[0].uuid) for found in offered]
    assert [claim.instance_uuid for claim in claims] == [
        found[0].instance_uuid for found in offered
    ]
    assert claims[0].instance_uuid == ONE != claims[1].instance_uuid


def test_a_candidate_is_claimed(three):
    _, second, _ = offer(three, memory_mb=1024, vcpus=2)
    claim = three.candidates.claim_candidate(second.uuid)
    assert (claim.instance_uuid, claim.host, claim.nodename, claim.state) == (
        ONE,
        'b',
        'b',
        'pending',
    )
    assert claim.resources == {'VCPU': 2, 'MEMORY_MB': 1024}
    assert three.hosts_of('one') == {'b': 'pending'}


def test_the_same_one_twice_is_one_claim(three):
    best = offer(three, vcpus=2)[0]
    for _ in range(3):
        assert three.candidates.claim_candidate(best.uuid).host == 'a'
    assert len(three.table('claims')) == 1


def test_when_a_build_failed_the_next_one_is_claimed_instead(three):
    best, second, _ = offer(three)
    three.candidates.claim_candidate(best.uuid)
    three.candidates.claim_candidate(second.uuid)
    assert three.hosts_of('one') == {'b': 'pending'}


def test_one_that_does_not_fit_any_more_says_what_is_short(three):
    best, second, _ = offer(three)
    three.claims.instance_claim(spec(vcpus=2), TWO, 'a', 'a')
    before = three.table('claims'), three.table('nodes')
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match='VCPU: 1 asked, 0 available'
    ) as short:
        three.candidates.claim_candidate(best.uuid)
    assert short.value.node == uuid_of('node a')
    assert (three.table('claims'), three.table('nodes')) == before
    assert three.candidates.claim_candidate(second.uuid).host == 'b'


def test_one_that_would_break_the_policy_of_its_group_by_now(three):
    def asked():
        group = objects.InstanceGroup(
            uuid=uuid_of('group'), policy='anti-affinity', members=[ONE, TWO], hosts=[]
        )
        return spec(instance_group=group)

    offered = [three.candidates.select_candidates(asked(), [uuid])[0] for uuid in (ONE, TWO)]
    assert hosts(offered) == [['a', 'b', 'c']] * 2
    three.candidates.claim_candidate(offered[0][0].uuid)
    with pytest.raises(errors.ComputeResourcesUnavailable, match='anti-affinity'):
        three.candidates.claim_candidate(offered[1][0].uuid)
    assert three.candidates.claim_candidate(offered[1][1].uuid).host == 'b'
    assert (three.hosts_of('one'), three.hosts_of('two')) == ({'a': 'pending'}, {'b': 'pending'})


def test_a_node_that_left(three):
    best = offer(three)[0]
    three.stats.remove_node('a', 'a')
    with pytest.raises(errors.NodeNotFound, match='a on host a'):
        three.candidates.claim_candidate(best.uuid)


def test_one_that_was_never_offered(daemon):
    with pytest.raises(errors.CandidateNotFound, match=ONE):
        daemon.candidates.claim_candidate(ONE)


def test_one_that_has_expired(three):
    with settings({'candidates.ttl': 1}):
        best = offer(three)[0]
    three.candidates.claim_candidate(best.uuid)

    def gone():
        return isinstance(
            outcome(three.candidates.claim_candidate, best.uuid), errors.CandidateNotFound
        )

    eventually(gone)


def test_no_valid_host_is_said_as_of_select_destinations(three):
    for tell, words in (('rules', 'removed the last hosts: they '), ('all', 'Of 3 hosts')):
        with settings({'explain.tell_callers': tell}):
            with pytest.raises(errors.NoValidHost, match=words) as refused:
                offer(three, vcpus=9)
            with pytest.raises(errors.NoValidHost, match=words) as usual:
                three.scheduler.select_destinations(spec(vcpus=9), [ONE])
        same = [re.sub('req-[-0-9a-f]{36}', 'req', str(one.value)) for one in (refused, usual)]
        assert same[0] == same[1]


def test_credentials_of_a_cell_are_not_kept(three):
    cell = objects.CellMapping(
        uuid=uuid_of('cell'),
        name='cell 1',
        transport_url=f'rabbit://nova:{SECRET}@bus/',
        database_connection=f'mysql+pymysql://nova:{SECRET}@db/nova',
    )
    wanted = objects.Destination(host='b', node=None, cell=cell, allow_cross_cell_move=True)
    (only,) = offer(three, requested_destination=wanted)
    assert three.candidates.claim_candidate(only.uuid).host == 'b'
    kept = [row for row in three.table('candidate_requests') if uuid_of('cell') in repr(row)]
    assert len(kept) == 1
    assert SECRET not in repr(three.state())
    assert all(
        SECRET.encode() not in path.read_bytes() for path in three.database.parent.iterdir()
    )
