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
"""Over a bus: no request breaks a server group's hard policy, whichever method it calls."""

import pytest

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import spec
from nova_sched.tests.options import told_all

ONE, TWO = uuid_of('one'), uuid_of('two')
APART, NEAR = 'anti-affinity', 'affinity'
FULL = 'the server group allows 1 member on a host (anti-affinity), and the host has 1'
FAR = 'the policy of the server group is affinity, and its members are on 1 other host'
AWAY = (
    'the policy of the server group is affinity, '
    'and a member is on its way from one host to another'
)


def member(policy, most=1, **words):
    """A RequestSpec of a member; who the others are, the scheduler knows by their claims."""
    group = objects.InstanceGroup(
        uuid=uuid_of(f'group of {policy}'), policy=policy, members=[], hosts=[]
    )
    if most > 1:
        group._rules = {'max_server_per_host': str(most)}
    return spec(instance_group=group, **words)


def run(daemon, policy, uuid, host, **words):
    """Have a member run on a host."""
    daemon.claims.instance_claim(member(policy, **words), uuid, host, host)
    daemon.claims.confirm_claim(uuid, host)


@pytest.fixture
def trio(daemon):
    daemon.add('a', 'b', 'c')
    return daemon


def claimed(daemon, policy):
    return daemon.claims.instance_claim(member(policy), TWO, 'b', 'b')


def resized(daemon, policy):
    run(daemon, policy, TWO, {APART: 'c', NEAR: 'a'}[policy])
    return daemon.claims.resize_claim(member(policy), TWO, 'b', 'b')


def alternate(daemon, policy):
    first = {APART: 'c', NEAR: 'a'}[policy]
    daemon.claims.instance_claim(member(policy), TWO, first, first)
    return daemon.claims.claim_alternate(member(policy), TWO, first, 'b', 'b')


def candidate(daemon, policy):
    wanted = member(policy, requested_destination=objects.Destination(host='b'))
    daemon.claims.abort_claim(ONE)
    ((found,),) = daemon.candidates.select_candidates(wanted, [TWO])
    run(daemon, policy, ONE, {APART: 'b', NEAR: 'a'}[policy])
    return daemon.candidates.claim_candidate(found.uuid)


@pytest.mark.parametrize('door', [claimed, resized, alternate, candidate])
@pytest.mark.parametrize(
    'policy, there, reason',
    [pytest.param(APART, 'b', FULL, id=APART), pytest.param(NEAR, 'a', FAR, id=NEAR)],
)
def test_a_member_that_would_break_the_policy_is_refused_with_the_reason(
    trio, door, policy, there, reason
):
    run(trio, policy, ONE, there)
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        door(trio, policy)
    assert (refused.value.node, refused.value.shortages) == (uuid_of('node b'), reason)
    assert trio.hosts_of('one') == {there: 'confirmed'}
    assert 'b' not in trio.hosts_of('two')


@pytest.mark.parametrize('door', [claimed, resized, alternate])
@pytest.mark.parametrize('policy, there', [(APART, 'a'), (NEAR, 'b')])
def test_a_member_that_keeps_the_policy_is_not(trio, door, policy, there):
    """The same doors, the other member out of the way; for affinity they are where it goes to
    already."""
    if policy == APART or door is claimed:
        run(trio, policy, ONE, there)
    assert door(trio, policy).host == 'b'


def test_more_than_one_on_a_host(trio):
    for name in ('one', 'two'):
        run(trio, APART, uuid_of(name), 'a', most=2)
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match='allows 2 members on a host'
    ) as refused:
        trio.claims.instance_claim(member(APART, most=2), uuid_of('three'), 'a', 'a')
    assert refused.value.shortages.endswith('and the host has 2')


@pytest.mark.parametrize('host', ['a', 'b'])
def test_a_member_on_its_way_counts_on_both_hosts(trio, host):
    run(trio, APART, ONE, 'a')
    trio.claims.resize_claim(member(APART), ONE, 'b', 'b')
    with pytest.raises(errors.ComputeResourcesUnavailable, match='the host has 1'):
        trio.claims.instance_claim(member(APART), TWO, host, host)
    trio.claims.revert_claim(ONE)
    assert trio.claims.instance_claim(member(APART), TWO, 'b', 'b').host == 'b'


@pytest.mark.parametrize(
    'settle, host',
    [
        pytest.param(lambda claims: claims.confirm_claim(ONE, 'b'), 'b', id='confirmed'),
        pytest.param(lambda claims: claims.revert_claim(ONE), 'a', id='reverted'),
    ],
)
def test_members_that_must_be_near_wait_until_another_one_has_moved(trio, settle, host):
    run(trio, NEAR, ONE, 'a')
    trio.claims.resize_claim(member(NEAR), ONE, 'b', 'b')
    before = trio.state()
    for there in ('a', 'b', 'c'):
        with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
            trio.claims.instance_claim(member(NEAR), TWO, there, there)
        assert refused.value.shortages == AWAY
    with told_all(), pytest.raises(errors.NoValidHost, match=AWAY):
        trio.scheduler.select_destinations(member(NEAR), [TWO])
    assert trio.state() == before
    settle(trio.claims)
    (found,) = trio.scheduler.select_destinations(member(NEAR), [TWO])
    assert [one.service_host for one in found] == [host]


@pytest.mark.parametrize(
    'policy, there, reason',
    [pytest.param(APART, 'b', FULL, id=APART), pytest.param(NEAR, 'a', FAR, id=NEAR)],
)
@pytest.mark.parametrize('force', ['force_hosts', 'force_nodes'])
def test_a_forced_host_breaks_no_policy(trio, policy, there, reason, force):
    run(trio, policy, ONE, there)
    with told_all(), pytest.raises(errors.NoValidHost) as refused:
        trio.scheduler.select_destinations(member(policy, **{force: ['b']}), [TWO])
    assert reason in str(refused.value)
    assert trio.claims.show(TWO) == []


@pytest.mark.parametrize('policy', ['soft-affinity', 'soft-anti-affinity'])
def test_a_soft_policy_refuses_no_instance(trio, policy):
    run(trio, policy, ONE, 'a')
    for host in ('a', 'b'):
        assert trio.claims.instance_claim(member(policy), TWO, host, host).host == host


def test_instances_of_one_request_are_members_of_each_other(trio):
    uuids = [ONE, TWO, uuid_of('three')]
    near = trio.scheduler.select_destinations(member(NEAR), uuids)
    assert len({found[0].service_host for found in near}) == 1
    for uuid in uuids:
        trio.claims.abort_claim(uuid)
    apart = trio.scheduler.select_destinations(member(APART), uuids)
    assert {found[0].service_host for found in apart} == {'a', 'b', 'c'}
    with told_all(), pytest.raises(errors.NoValidHost, match='allows 1 member on a host'):
        trio.scheduler.select_destinations(member(APART), [uuid_of('four')])
    assert trio.claims.show(uuid_of('four')) == []
