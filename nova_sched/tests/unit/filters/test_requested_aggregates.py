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
"""RequestedAggregates."""

import dataclasses

import numpy as np
import pytest

from nova_sched.filters.requested_aggregates import RequestedAggregates
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import aggregate, hosts, mask_of, request
from nova_sched.tests.rows import each

GROUPS = [
    dataclasses.replace(aggregate(1, ['host-0', 'host-1']), uuid='a'),
    dataclasses.replace(aggregate(2, ['host-1', 'host-2']), uuid='b'),
]


def wanted(*aggregates, forbidden=()):
    return RequestedDestination(
        aggregates=tuple(map(frozenset, aggregates)), forbidden_aggregates=frozenset(forbidden)
    )


@each(
    'destination, mask',
    [
        pytest.param(None, '*', id='no destination'),
        pytest.param(RequestedDestination(host='host-0'), '*', id='no aggregates'),
        pytest.param(wanted({'a'}), '1100', id='one'),
        pytest.param(wanted({'a', 'b'}), '1110', id='either'),
        pytest.param(wanted({'a'}, {'b'}), '0100', id='both'),
        pytest.param(wanted({'z'}), '0000', id='one that nobody knows'),
        pytest.param(wanted(forbidden={'a'}), '0011', id='a forbidden one'),
        pytest.param(wanted({'b'}, forbidden={'a'}), '0010', id='one, but not the other'),
    ],
)
def test_aggregates(destination, mask):
    asked = request(destination=destination)
    assert mask_of(RequestedAggregates, hosts(4, GROUPS), asked) == mask


def test_why():
    why = RequestedAggregates().why(
        hosts(4, GROUPS), request(destination=wanted({'z'})), np.arange(4)
    )
    assert why == 'all are outside of the aggregates that the request names'


def test_as_the_wire_has_them():
    class Asked:
        host = node = cell = None
        allow_cross_cell_move = False
        aggregates = ['a,b', 'c']
        forbidden_aggregates = {'d'}

    assert request(requested_destination=Asked()).destination == wanted(
        {'a', 'b'}, {'c'}, forbidden={'d'}
    )
