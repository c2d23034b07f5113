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
"""Versions, namespaces and methods that are not served are refused by name."""

import pytest

from nova_sched.tests.functional.harness import error_name, outcome


@pytest.mark.parametrize(
    'namespace, version, method, refusal',
    [
        pytest.param(None, '4.6', 'select_destinations', 'UnsupportedVersion', id='a newer minor'),
        pytest.param(None, '5.0', 'select_destinations', 'UnsupportedVersion', id='a newer major'),
        pytest.param(
            None, '3.0', 'select_destinations', 'UnsupportedVersion', id='an older major'
        ),
        pytest.param(
            'stats', '1.3', 'update_resource_stats', 'UnsupportedVersion', id='newer stats'
        ),
        pytest.param(
            'stats', '4.5', 'update_resource_stats', 'UnsupportedVersion', id='stats is not 4.x'
        ),
        pytest.param('claims', '1.4', 'show', 'UnsupportedVersion', id='a newer minor of claims'),
        pytest.param('claims', '2.0', 'show', 'UnsupportedVersion', id='newer claims'),
        pytest.param('baseapi', '1.2', 'ping', 'UnsupportedVersion', id='newer baseapi'),
        pytest.param('nobody', '1.0', 'ping', 'UnsupportedVersion', id='unknown namespace'),
        pytest.param(None, '4.5', 'live_migration', 'NoSuchMethod', id='unknown method'),
        pytest.param(
            None, '4.5', 'update_resource_stats', 'NoSuchMethod', id='method of another namespace'
        ),
        pytest.param('claims', '1.0', '_claim', 'NoSuchMethod', id='private method'),
        pytest.param('stats', '1.0', '__init__', 'NoSuchMethod', id='special method'),
        pytest.param('stats', '1.0', 'target', 'NoSuchMethod', id='attribute that is no method'),
    ],
)
def test_what_is_not_served_is_refused(daemon, namespace, version, method, refusal):
    assert error_name(outcome(lambda: daemon.raw(method, version, namespace))) == refusal


@pytest.mark.parametrize('version', ['4.0', '4.3', '4.4', '4.5'])
def test_every_minor_of_4_is_served(daemon, version):
    refused = outcome(lambda: daemon.raw('select_destinations', version))
    assert error_name(refused) == 'InvalidRequest'  # it was read, and has no spec


@pytest.mark.parametrize(
    'namespace, method, arguments, why',
    [
        pytest.param(
            'stats', 'update_resource_stats', {}, "missing a required argument: 'name'", id='none'
        ),
        pytest.param(
            'stats',
            'remove_node',
            {'name': 'a'},
            "missing a required argument: 'nodename'",
            id='one less',
        ),
        pytest.param(
            'claims',
            'show',
            {'uuid': 1},
            "missing a required argument: 'instance_uuid'",
            id='another name',
        ),
        pytest.param(
            'stats',
            'remove_node',
            {'name': 'a', 'nodename': 'a', 'force': True},
            "got an unexpected keyword argument 'force'",
            id='one more',
        ),
    ],
)
def test_wrong_arguments_are_named(daemon, namespace, method, arguments, why):
    refused = outcome(lambda: daemon.raw(method, '1.0', namespace, **arguments))
    assert error_name(refused) == 'InvalidRequest'
    assert f'arguments of {method}: {why}' in str(refused)
