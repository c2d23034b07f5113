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
"""Rebalances over the bus, as operators call them."""

import oslo_messaging as messaging
import pytest

from nova_sched import errors
from nova_sched.extensions.optimize.endpoints import PlansEndpoint, RebalancesEndpoint
from nova_sched.rpc import client
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import TIMEOUT_S

MOVE = {name: uuid_of(name) for name in ('server', 'source', 'destination')}


@pytest.fixture
def rebalances(daemon):
    return client.RebalancesClient(daemon.bus, TIMEOUT_S)


def test_a_rebalance_is_kept_once(rebalances):
    """A call may be repeated: it names the rebalance."""
    uuid = uuid_of('kept once')
    made = rebalances.create(uuid, [MOVE])
    again = rebalances.create(uuid, [MOVE])
    assert (made['uuid'], len(made['plan']), made['goal']) == (uuid, 1, None)
    assert [one['uuid'] for one in made['plan']] == [one['uuid'] for one in again['plan']]
    assert uuid in [one['uuid'] for one in rebalances.list()]
    stopped = rebalances.stop(uuid)
    assert stopped['state'] == 'stopped'
    assert stopped['plan'][0]['state'] == 'refused'
    assert rebalances.show(uuid) == stopped


def test_pages(rebalances):
    uuids = [uuid_of(f'page {number}') for number in range(3)]
    for uuid in uuids:
        rebalances.create(uuid, [])
    known = [one['uuid'] for one in rebalances.list()]
    assert [one for one in known if one in uuids] == uuids
    assert [one['uuid'] for one in rebalances.list(uuids[0])] == uuids[1:]
    assert [one['uuid'] for one in rebalances.list(uuids[0], 1)] == uuids[1:2]


@pytest.mark.parametrize(
    'method, words, error, told',
    [
        ('create', {'uuid': 'a', 'moves': []}, errors.InvalidRequest, 'uuid'),
        ('create', {'uuid': uuid_of('x'), 'moves': 'a'}, errors.InvalidRequest, 'moves'),
        ('create', {'uuid': uuid_of('x'), 'moves': [{}]}, errors.InvalidRequest, 'moves.0.'),
        (
            'create',
            {'uuid': uuid_of('x'), 'moves': [], 'close_s': 0},
            errors.InvalidRequest,
            'close_s',
        ),
        (
            'create',
            {'uuid': uuid_of('x'), 'moves': [], 'close_s': 10**9},
            errors.InvalidRequest,
            'close_s',
        ),
        ('list', {'limit': 'a'}, errors.InvalidRequest, 'limit'),
        ('list', {'marker': 7}, errors.InvalidRequest, 'marker'),
        ('list', {'marker': uuid_of('none')}, errors.RebalanceNotFound, uuid_of('none')),
        ('show', {'uuid': 7}, errors.InvalidRequest, 'uuid'),
        ('show', {'uuid': uuid_of('none')}, errors.RebalanceNotFound, uuid_of('none')),
        ('stop', {'uuid': uuid_of('none')}, errors.RebalanceNotFound, uuid_of('none')),
    ],
)
def test_calls_that_make_no_sense(rebalances, method, words, error, told):
    with pytest.raises(error, match=told):
        getattr(rebalances, method)(**words)


class Alone:
    """A scheduler that has no database."""

    rebalances, moves_servers = None, False


def failure(call, *args, **words):
    """The error that goes over the bus."""
    with pytest.raises(messaging.ExpectedException) as raised:
        call({}, *args, **words)
    return raised.value.exc_info[1]


def test_a_zone_without_a_name():
    error = failure(PlansEndpoint(None).fragmentation, zone={})
    assert isinstance(error, errors.InvalidRequest)
    assert 'zone or aggregate' in str(error)


@pytest.mark.parametrize(
    'reads_nova, told', [(True, r'\[nova_api\]'), (False, r'\[claims\] store is memory')]
)
def test_schedulers_that_move_no_servers(reads_nova, told):
    endpoint = RebalancesEndpoint(Alone(), reads_nova)
    error = failure(endpoint.create, uuid_of('x'), [MOVE])
    with pytest.raises(errors.InvalidRequest, match=told):
        raise error
    assert endpoint.list({}) == []
    for method in (endpoint.show, endpoint.stop):
        assert isinstance(failure(method, uuid_of('x')), errors.RebalanceNotFound)
