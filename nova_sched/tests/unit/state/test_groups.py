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
"""Groups of resources, of flavors and of ports."""

import types

import pytest

from nova_sched.hardware.providers import ResourceGroup
from nova_sched.tests.builders import request
from nova_sched.tests.rows import table

GPU = 'CUSTOM_GPU_MILLI'


def port(requester_id='port', **fields):
    asked = {
        'resources': {'NET_BW': 1000},
        'required_traits': {'CUSTOM_NET'},
        'requester_id': requester_id,
    }
    return types.SimpleNamespace(**{**asked, **fields})


def group(suffix, required=(), forbidden=(), in_tree=None, **resources):
    return ResourceGroup(
        suffix,
        tuple(sorted(resources.items())),
        frozenset(required),
        frozenset(forbidden),
        in_tree,
    )


@table(
    'words, groups',
    {
        'none': ({}, ()),
        'no suffix': ({'extra_specs': {f'resources:{GPU}': '1', 'trait:A': 'required'}}, ()),
        'a number': ({'extra_specs': {f'resources1:{GPU}': '500'}}, (group('1', **{GPU: 500}),)),
        'a word': ({'extra_specs': {f'resources_a-B:{GPU}': '1'}}, (group('_a-B', **{GPU: 1}),)),
        'resources and traits': (
            {
                'extra_specs': {
                    f'resources1:{GPU}': '500',
                    'trait1:B': 'required',
                    'trait1:A': 'required',
                    'trait1:C': 'forbidden',
                    'resources1:ACCEL': '1',
                }
            },
            (group('1', required='AB', forbidden='C', ACCEL=1, **{GPU: 500}),),
        ),
        'in the order of the flavor, without the empty ones': (
            {'extra_specs': {'resources2:A': '1', 'resources1:A': '2', 'resources3:A': '0'}},
            (group('2', A=1), group('1', A=2)),
        ),
        'a port': (
            {'requested_resources': [port()]},
            (group('port', required=['CUSTOM_NET'], NET_BW=1000),),
        ),
        'a port that names a provider': (
            {'requested_resources': [port(required_traits=None, in_tree='node')]},
            (group('port', in_tree='node', NET_BW=1000),),
        ),
        'both': (
            {
                'extra_specs': {'resources1:A': '1'},
                'requested_resources': [port(required_traits=())],
            },
            (group('1', A=1), group('port', NET_BW=1000)),
        ),
    },
)
def test_groups(words, groups):
    found = request(**words).groups
    assert found == groups
    assert hash(found) == hash(groups)


@table(
    'words, message',
    {
        'no number': ({'extra_specs': {'resources1:A': 'x'}}, 'A: .x. is not a whole number'),
        'negative': ({'extra_specs': {'resources1:A': '-1'}}, 'A: .-1. is not within 0'),
        'more than anybody has': (
            {'extra_specs': {'resources1:A': str(2**60)}},
            'A: .* is not within 0',
        ),
        'twice': (
            {'requested_resources': [port('1'), port('2'), port('1')]},
            'two groups are called 1',
        ),
    },
)
def test_groups_that_cannot_be(words, message):
    with pytest.raises(ValueError, match=message):
        request(**words)


ONE, TWO = {'resources1:A': '1'}, {'resources1:A': '1', 'resources2:A': '1'}


@table(
    'words, policy',
    {
        'one group needs none': ({'extra_specs': ONE}, None),
        'two groups, nobody said': ({'extra_specs': TWO}, None),
        'none': ({'extra_specs': {**TWO, 'group_policy': 'none'}}, 'none'),
        'isolate': ({'extra_specs': {**TWO, 'group_policy': 'isolate'}}, 'isolate'),
        'another word': ({'extra_specs': {**TWO, 'group_policy': 'other'}}, None),
        'a port beside one of the flavor': (
            {'extra_specs': ONE, 'requested_resources': [port()]},
            'none',
        ),
        'a port beside two of the flavor': (
            {'extra_specs': TWO, 'requested_resources': [port()]},
            None,
        ),
        'ports alone': ({'requested_resources': [port('a'), port('b')]}, 'none'),
        'an empty group of the flavor counts': (
            {'extra_specs': {**ONE, 'resources2:A': '0'}, 'requested_resources': [port()]},
            None,
        ),
    },
)
def test_group_policy(words, policy):
    assert request(**words).group_policy == policy


def test_same_subtree():
    asked = types.SimpleNamespace(same_subtree=[['a', 'b'], ['c', 'a']])
    assert request(request_level_params=asked).same_subtree == (frozenset('ab'), frozenset('ca'))
    assert request().same_subtree == ()
