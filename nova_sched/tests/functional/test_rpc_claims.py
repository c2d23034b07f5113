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
"""The namespace `claims`: what becomes of a claim after its host was chosen."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import spec

ONE, TWO = uuid_of('one'), uuid_of('two')


def test_a_claim_on_a_node_that_the_caller_names(daemon):
    daemon.add('a', 'b')
    claim = daemon.claims.instance_claim(spec(vcpus=2, memory_mb=1024), ONE, 'b', 'b')
    assert (claim.instance_uuid, claim.host, claim.nodename, claim.state) == (
        ONE,
        'b',
        'b',
        'pending',
    )
    assert claim.compute_node_uuid == uuid_of('node b')
    assert claim.resources == {'VCPU': 2, 'MEMORY_MB': 1024}
    assert json.loads(claim.allocation_request)['allocations'] == {
        uuid_of('node b'): {'resources': {'VCPU': 2, 'MEMORY_MB': 1024}}
    }
    assert claim.expires_at > claim.created_at
    (shown,) = daemon.claims.show(ONE)
    assert shown.uuid == claim.uuid


def test_the_same_claim_twice_is_one(daemon):
    daemon.add('a', vcpus=2)
    for _ in range(3):
        daemon.claims.instance_claim(spec(vcpus=2), ONE, 'a', 'a')
    assert len(daemon.table('claims')) == 1


def test_a_claim_that_does_not_fit_says_all_that_is_short(daemon):
    daemon.add('a', vcpus=4, memory_mb=2048)
    before = daemon.state()
    with pytest.raises(errors.ComputeResourcesUnavailable) as short:
        daemon.claims.instance_claim(spec(vcpus=5, memory_mb=4096, root_gb=10), ONE, 'a', 'a')
    assert short.value.node == uuid_of('node a')
    assert short.value.shortages == (
        'VCPU: 5 asked, the node has 4 in all; MEMORY_MB: 4096 asked, the node has 2048 in all'
    )
    assert daemon.state() == before


def test_an_alternate_is_claimed_in_place_of_the_host_that_failed(daemon):
    daemon.add('a', 'b')
    daemon.claims.instance_claim(spec(), ONE, 'a', 'a')
    moved = daemon.claims.claim_alternate(spec(), ONE, 'a', 'b', 'b')
    assert moved.host == 'b'
    assert daemon.hosts_of('one') == {'b': 'pending'}


def test_an_alternate_that_is_full_leaves_the_claim_where_it_was(daemon):
    daemon.add('a', 'b', vcpus=1)
    daemon.claims.instance_claim(spec(), ONE, 'a', 'a')
    daemon.claims.instance_claim(spec(), TWO, 'b', 'b')
    before = daemon.state()
    with pytest.raises(errors.ComputeResourcesUnavailable, match='VCPU: 1 asked, 0 available'):
        daemon.claims.claim_alternate(spec(), ONE, 'a', 'b', 'b')
    assert daemon.state() == before


def test_a_confirmed_claim_stays_on_the_host_that_is_left_only_if_it_is_another(daemon):
    daemon.add('a', 'b', 'c')
    daemon.claims.instance_claim(spec(), ONE, 'a', 'a')
    daemon.claims.confirm_claim(ONE, 'a')
    daemon.claims.instance_claim(spec(), ONE, 'b', 'b')  # it moves
    assert daemon.hosts_of('one') == {'a': 'confirmed', 'b': 'pending'}
    daemon.claims.claim_alternate(spec(), ONE, 'b', 'c', 'c')
    assert daemon.hosts_of('one') == {'a': 'confirmed', 'c': 'pending'}


def test_confirm(daemon):
    daemon.add('a')
    daemon.boot('one')
    for _ in range(2):
        (claim,) = daemon.claims.confirm_claim(ONE, 'a')
        assert (claim.state, claim.expires_at) == ('confirmed', None)


def test_abort_frees_what_was_held(daemon):
    daemon.add('a', vcpus=1)
    daemon.boot('one')
    (ended,) = daemon.claims.abort_claim(ONE)
    assert (ended.instance_uuid, ended.host) == (ONE, 'a')
    assert daemon.boot('two') == ['a']


def test_abort_on_one_host_only(daemon):
    daemon.add('a', 'b')
    daemon.claims.instance_claim(spec(), ONE, 'a', 'a')
    daemon.claims.confirm_claim(ONE, 'a')
    daemon.claims.instance_claim(spec(), ONE, 'b', 'b')
    daemon.claims.abort_claim(ONE, 'b')
    assert daemon.hosts_of('one') == {'a': 'confirmed'}


def test_a_new_instance_is_claimed_for_once_it_runs_nowhere_else(daemon):
    """Two workers have its job: the later one takes over, until the earlier one has built it."""
    daemon.add('a', 'b')
    for host in ('a', 'b'):
        daemon.claims.instance_claim(spec(), ONE, host, host, new=True)
    with pytest.raises(errors.ClaimNotFound, match=f'instance {ONE} on host a'):
        daemon.claims.confirm_claim(ONE, 'a')
    assert daemon.hosts_of('one') == {'b': 'pending'}
    daemon.claims.confirm_claim(ONE, 'b')
    with pytest.raises(errors.AlreadyPlaced) as placed:
        daemon.claims.instance_claim(spec(), ONE, 'a', 'a', new=True)
    assert type(placed.value) is errors.AlreadyPlaced
    assert (placed.value.instance, placed.value.host) == (ONE, 'b')
    assert str(placed.value) == f'Instance {ONE} is on host b already'
    assert daemon.hosts_of('one') == {'b': 'confirmed'}


def test_a_new_instance_that_runs_there_keeps_its_claim(daemon):
    daemon.add('a', vcpus=2)
    daemon.claims.instance_claim(spec(vcpus=2), ONE, 'a', 'a', new=True)
    (before,) = daemon.claims.confirm_claim(ONE, 'a')
    again = daemon.claims.instance_claim(spec(vcpus=2), ONE, 'a', 'a', new=True)
    assert (again.uuid, again.state, again.resources) == (
        before.uuid,
        'confirmed',
        {'VCPU': 2, 'MEMORY_MB': 512},
    )


def test_a_caller_of_the_version_before_is_served(daemon):
    daemon.add('a')
    arguments = {
        'spec_obj': objects.to_primitive(spec()),
        'instance_uuid': ONE,
        'host': 'a',
        'nodename': 'a',
    }
    daemon.raw('instance_claim', '1.0', 'claims', **arguments)
    assert daemon.hosts_of('one') == {'a': 'pending'}


def test_show_of_nothing_is_nothing(daemon):
    assert daemon.claims.show(ONE) == []


@pytest.mark.parametrize(
    'method, arguments, error, text',
    [
        pytest.param(
            'confirm_claim',
            (ONE, 'a'),
            errors.ClaimNotFound,
            f'instance {ONE} on host a',
            id='confirm',
        ),
        pytest.param(
            'confirm_claim',
            (ONE, 'x'),
            errors.ClaimNotFound,
            'on host x',
            id='confirm, unknown host',
        ),
        pytest.param('abort_claim', (ONE,), errors.ClaimNotFound, f'instance {ONE}', id='abort'),
        pytest.param(
            'instance_claim',
            (spec(), ONE, 'a', 'x'),
            errors.NodeNotFound,
            'x on host a',
            id='claim',
        ),
        pytest.param(
            'instance_claim',
            (spec(), ONE, 'x', 'a'),
            errors.NodeNotFound,
            'a on host x',
            id='claim, host',
        ),
        pytest.param(
            'claim_alternate',
            (spec(), ONE, 'a', 'b', 'b'),
            errors.NodeNotFound,
            'b on host b',
            id='alternate',
        ),
    ],
)
def test_what_is_not_there_is_named(daemon, method, arguments, error, text):
    daemon.add('a')
    with pytest.raises(error, match=text) as missing:
        getattr(daemon.claims, method)(*arguments)
    assert type(missing.value) is error
    assert 'Traceback' not in str(missing.value)
