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
"""What looks odd and is no mistake: newer and older senders, strange contexts, nodes that change
hands."""

import pytest

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import (
    DATA,
    compute_node,
    eventually,
    outcome,
    primitive,
    refused_as,
    spec,
)
from nova_sched.tests.options import settings
from nova_sched.tests.reference import recorded

ONE = uuid_of('one')


@pytest.mark.parametrize('reason', ['silent', 'forced down'])
def test_a_node_is_taken_over_from_a_host_that_is_down(daemon, reason):
    daemon.add('a', 'b')
    daemon.boot('one', force_hosts=['a'])
    moved = compute_node('heir', nodename='a')
    with settings({'default.service_down_time': 1} if reason == 'silent' else {}):
        if reason == 'silent':
            eventually(
                lambda: (
                    not isinstance(
                        outcome(daemon.stats.update_resource_stats, 'heir', moved), Exception
                    )
                )
            )
        else:
            daemon.stats.update_service('a', objects.Service(forced_down=True))
            daemon.stats.update_resource_stats('heir', moved)
    assert {row[1] for row in daemon.table('nodes')} == {'heir', 'b'}
    assert daemon.hosts_of('one') == {'heir': 'pending'}
    refused_as(lambda: daemon.add('a'), 'NodeOwned', 'belongs to host heir')


@pytest.mark.parametrize(
    'context',
    [
        pytest.param({'request_id': 'x' * 5_000_000}, id='a long request id'),
        pytest.param({'request_id': ['x']}, id='a request id that is a list'),
        pytest.param(
            {'roles': 5, 'is_admin': 'perhaps', 'unknown': {'deeply': ['nested']}}, id='nonsense'
        ),
    ],
)
def test_a_strange_context_does_not_matter(daemon, context):
    daemon.add('a')
    arguments = {'spec_obj': primitive(spec()), 'instance_uuids': [ONE]}
    assert len(daemon.raw('select_destinations', context=context, **arguments)) == 1
    (claim,) = daemon.table('claims')
    assert [fact for fact in claim if str(fact).startswith('req-')]


def test_a_newer_minor_version_is_read_as_far_as_it_is_known(daemon):
    daemon.raw(
        'update_resource_stats',
        '1.0',
        'stats',
        name='a',
        stats=primitive(compute_node('a'), '1.99', cores_of_2030=7),
    )
    newer = primitive(
        spec(), '1.99', mood='good', flavor=primitive(spec().flavor, '1.7', colour='green')
    )
    ((chosen,),) = daemon.raw(
        'select_destinations', spec_obj=newer, instance_uuids=[ONE], return_objects=True
    )
    assert chosen[DATA]['service_host'] == 'a'


def test_unknown_hints_are_ignored(daemon):
    daemon.add('a')
    assert daemon.boot(
        'one', scheduler_hints={'moon_phase': ['full'], 'query': ['["=", "$x", "y"]']}
    ) == ['a']


def test_a_node_without_what_older_computes_do_not_know(daemon):
    (old,) = [node for node in recorded('ComputeNodeList') if node.host == 'cmp01'][:1]
    for name in (
        'stats',
        'numa_topology',
        'pci_device_pools',
        'supported_hv_specs',
        'metrics',
        'cpu_info',
    ):
        delattr(old, name)
    assert daemon.stats.update_resource_stats(old.host, old)['node'] == old.uuid


def test_an_error_crosses_the_bus_with_its_facts_and_without_a_traceback(daemon):
    error = outcome(daemon.stats.update_resource_stats, 'a', compute_node('a', vcpus=-1))
    assert type(error) is errors.BadReport
    assert (error.node, error.field, error.why) == ('a', 'vcpus', '-1 is negative')
    assert str(error) == 'Report of node a refused, vcpus: -1 is negative'
