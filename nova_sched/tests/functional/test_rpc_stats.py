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
"""The namespace `stats`: reports, services, and nodes that leave."""

import datetime

import pytest

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node, error_name, eventually, outcome
from nova_sched.tests.options import settings
from nova_sched.tests.reference import recorded

CELL = uuid_of('cell')


def test_a_report_is_answered_with_what_was_accepted(daemon):
    daemon.add('a', cell_uuid=CELL)
    daemon.boot('one', vcpus=2, memory_mb=1024)
    for _ in range(2):  # the first one may be older than the claim
        accepted = daemon.stats.update_resource_stats(
            'a',
            compute_node('a', vcpus_used=3, memory_mb_used=4096, local_gb_used=10),
            instances=[uuid_of('one'), uuid_of('stranger')],
            cell_uuid=CELL,
        )
    assert accepted.pop('generation') > 1
    assert accepted == {
        'node': uuid_of('node a'),
        'claims': {uuid_of('one'): 'confirmed'},
        'foreign': {'VCPU': 1, 'MEMORY_MB': 3072, 'DISK_GB': 10},
        'counted': {
            'capacity': {'VCPU': 8, 'MEMORY_MB': 16384, 'DISK_GB': 100},
            'used': {'VCPU': 3, 'MEMORY_MB': 4096, 'DISK_GB': 10},
            'sizes': [
                {'resources': {'VCPU': 2, 'MEMORY_MB': 1024}, 'instances': [uuid_of('one')]}
            ],
        },
        'stale': False,
        'boot': None,
        'version': '1.2',
    }


def test_a_report_with_the_amounts_of_each_instance(daemon):
    daemon.add('a', cell_uuid=CELL)
    daemon.boot('one', vcpus=2, memory_mb=1024)
    held = {
        uuid_of('one'): {'VCPU': 3, 'MEMORY_MB': 512},
        uuid_of('stranger'): {'VCPU': 1, 'DISK_GB': 7, 'PCPU': 0},
        uuid_of('gone'): {},
    }
    accepted = daemon.stats.update_resource_stats(
        'a',
        compute_node('a', vcpus_used=4, memory_mb_used=600, local_gb_used=7),
        instances=held,
        cell_uuid=CELL,
    )
    assert accepted['claims'] == {uuid_of('one'): 'confirmed'}
    assert accepted['foreign'] == {'VCPU': 2, 'MEMORY_MB': 88, 'DISK_GB': 7}
    assert accepted['counted']['used'] == {'VCPU': 4, 'MEMORY_MB': 1112, 'DISK_GB': 7}


def test_an_older_report_changes_nothing(daemon):
    daemon.add('a')
    daemon.boot('one')
    report = daemon.stats.update_resource_stats
    taken = report('a', compute_node('a', vcpus=9), instances=[uuid_of('one')], boot=2, sequence=1)
    assert (taken['stale'], taken['claims']) == (False, {uuid_of('one'): 'confirmed'})
    for boot, sequence in ((2, 1), (1, 99)):
        late = report('a', compute_node('a', vcpus=7), instances=[], boot=boot, sequence=sequence)
        assert (late['stale'], late['boot'], late['claims']) == (True, 2, taken['claims'])
        assert late['counted']['capacity']['VCPU'] == 9
    assert not report('a', compute_node('a', vcpus=7), instances=[], boot=2, sequence=2)['stale']
    assert daemon.hosts_of('one') == {}


@pytest.mark.parametrize(
    'which',
    [
        {'boot': 1},
        {'sequence': 1},
        {'boot': 'one', 'sequence': 2},
        {'boot': 0, 'sequence': 1},
        {'seen': -1},
        {'seen': '3'},
    ],
)
def test_which_report_it_is_must_be_said_in_numbers(daemon, which):
    refused = outcome(
        lambda: daemon.raw(
            'update_resource_stats',
            '1.2',
            'stats',
            name='a',
            stats=objects.to_primitive(compute_node('a')),
            **which,
        )
    )
    assert error_name(refused) == 'InvalidRequest'


def test_a_list_settles_what_its_sender_had_seen(daemon):
    """An agent repeats a report with the generation of the answer."""
    report = daemon.stats.update_resource_stats
    before = report('a', compute_node('a'), [], seen=0, boot=1, sequence=1)['generation']
    daemon.boot('one')
    one = [uuid_of('one')]
    first = report('a', compute_node('a'), one, seen=before, boot=1, sequence=2)
    assert (first['stale'], first['claims']) == (False, {uuid_of('one'): 'pending'})
    second = report('a', compute_node('a'), one, seen=first['generation'], boot=1, sequence=3)
    assert second['claims'] == {uuid_of('one'): 'confirmed'}
    late = report('a', compute_node('a'), [], seen=first['generation'], boot=1, sequence=4)
    assert late['claims'] == {uuid_of('one'): 'confirmed'}
    last = report('a', compute_node('a'), [], seen=late['generation'], boot=1, sequence=5)
    assert last['claims'] == {}


def test_the_last_report_of_a_former_node_is_answered_with_the_present_one(daemon):
    report = daemon.stats.update_resource_stats
    report('a', compute_node('a'), [], seen=0, boot=4, sequence=1)
    new = compute_node('a', uuid=uuid_of('another board'))
    refused = report('a', new, [], seen=0, boot=1, sequence=1)
    assert (refused['stale'], refused['node'], refused['boot']) == (True, uuid_of('node a'), 4)
    answer = report('a', new, [], seen=refused['generation'], boot=5, sequence=1)
    assert (answer['stale'], answer['node']) == (False, uuid_of('another board'))
    late = report('a', compute_node('a'), [], seen=1, boot=4, sequence=2)
    assert (late['stale'], late['node']) == (True, uuid_of('another board'))
    assert late['generation'] == answer['generation']


def test_a_removal_means_a_node_as_it_was_seen(daemon):
    daemon.add('a')
    daemon.boot('one')
    daemon.add('a', instances=[uuid_of('one')])
    with pytest.raises(errors.Outdated, match='servers run there'):
        daemon.stats.call(None, 'remove_node', name='a', nodename='a')
    with pytest.raises(errors.Outdated, match='has reported'):
        daemon.stats.call(None, 'remove_node', name='a', nodename='a', generation=0)
    (seen,) = [row[3] for row in daemon.table('nodes')]
    daemon.stats.remove_node('a', 'a', generation=seen)
    assert daemon.hosts_of('one') == {}


def test_claims_of_one_size_are_told_together(daemon):
    daemon.add('a')
    daemon.boot('one', 'two', vcpus=2)
    daemon.boot('three', vcpus=1)
    counted = daemon.stats.update_resource_stats('a', compute_node('a'))['counted']
    sizes = {size['resources']['VCPU']: set(size['instances']) for size in counted['sizes']}
    assert sizes == {2: {uuid_of('one'), uuid_of('two')}, 1: {uuid_of('three')}}
    assert counted['used'] == {'VCPU': 5, 'MEMORY_MB': 1536}


def test_what_is_reserved_is_not_counted_as_capacity(daemon):
    tree = {
        uuid_of('node a'): {
            'inventories': {'VCPU': {'total': 8, 'reserved': 2, 'allocation_ratio': 1.5}}
        }
    }
    answer = daemon.stats.update_resource_stats('a', compute_node('a'), inventories=tree)
    assert answer['counted']['capacity']['VCPU'] == 9


def test_the_generation_of_a_node_rises_with_every_change(daemon):
    def report(**fields):
        return daemon.stats.update_resource_stats('a', compute_node('a', **fields))['generation']

    first = report()
    assert report() == first
    changed = report(vcpus=16)
    daemon.boot('one')
    assert first < changed < report(vcpus=16)


def test_every_recorded_node_is_accepted(daemon):
    nodes = recorded('ComputeNodeList')
    accepted = [daemon.stats.update_resource_stats(node.host, node)['node'] for node in nodes]
    assert accepted == [node.uuid for node in nodes]


def test_reports_settle_claims(daemon):
    daemon.add('a')
    daemon.boot('one')
    daemon.add('a', instances=[])  # it may not have heard of it yet
    assert daemon.hosts_of('one') == {'a': 'pending'}
    daemon.add('a')  # a report without a list settles nothing
    assert daemon.hosts_of('one') == {'a': 'pending'}
    daemon.add('a', instances=[uuid_of('one')], vcpus_used=1, memory_mb_used=512)
    assert daemon.hosts_of('one') == {'a': 'confirmed'}
    daemon.add('a', instances=[])
    assert daemon.hosts_of('one') == {}


def test_unclaimed_usage_counts(daemon):
    daemon.add('a', vcpus=4, vcpus_used=3)
    with pytest.raises(errors.NoValidHost):
        daemon.boot('one', vcpus=2)
    assert daemon.boot('one', vcpus=1) == ['a']


def test_a_provider_tree_replaces_what_the_node_says_itself(daemon):
    node, gpu = uuid_of('node a'), uuid_of('gpu')
    tree = {
        node: {
            'inventories': {
                'VCPU': {'total': 4, 'reserved': 2, 'allocation_ratio': 1.0},
                'CUSTOM_LICENCE': {'total': 1},
            },
            'traits': ['HW_CPU_X86_AVX2'],
        },
        gpu: {'parent_provider_uuid': node, 'inventories': {'VGPU': {'total': 1}}, 'traits': []},
    }
    daemon.add('a', inventories=tree)
    daemon.add('b')
    wanted = {'resources:CUSTOM_LICENCE': '1', 'trait:HW_CPU_X86_AVX2': 'required'}
    assert daemon.boot('one', extra_specs=wanted) == ['a']
    with pytest.raises(errors.NoValidHost):
        daemon.boot('two', extra_specs=wanted)
    with pytest.raises(errors.NoValidHost):
        daemon.boot('three', vcpus=2, extra_specs={'trait:HW_CPU_X86_AVX2': 'required'})


def test_the_cell_of_a_node_that_names_none_is_the_callers(daemon):
    daemon.add('a', cell_uuid=CELL)
    daemon.add('b')
    wanted = objects.Destination(cell=objects.CellMapping(uuid=CELL), host='b')
    assert daemon.boot('one', requested_destination=wanted) == ['b']
    elsewhere = objects.Destination(
        cell=objects.CellMapping(uuid=uuid_of('another cell')), host='a'
    )
    with pytest.raises(errors.NoValidHost):
        daemon.boot('two', requested_destination=elsewhere)


@pytest.mark.parametrize(
    'facts',
    [
        pytest.param({'disabled': True, 'disabled_reason': 'it burns'}, id='disabled'),
        pytest.param({'forced_down': True}, id='forced down'),
    ],
)
def test_an_operators_word_on_a_host(daemon, facts):
    daemon.add('a', 'b')
    daemon.stats.update_service('a', objects.Service(**facts))
    assert [daemon.boot(name) for name in ('one', 'two')] == [['b'], ['b']]
    daemon.stats.update_service('a', objects.Service(disabled=False, forced_down=False))
    assert daemon.boot('three', force_hosts=['a']) == ['a']


@pytest.mark.parametrize('heartbeat', ['report', 'service'])
def test_a_host_that_is_silent_for_too_long_is_down_until_it_shows_itself(daemon, heartbeat):
    daemon.add('a')
    with settings({'default.service_down_time': 3}):  # the wire cuts the fraction of a second off
        eventually(lambda: isinstance(outcome(daemon.boot, 'one', 'two'), errors.NoValidHost))
        if heartbeat == 'report':
            daemon.add('a')
        else:
            now = objects.Service(last_seen_up=datetime.datetime.now(datetime.UTC))
            daemon.stats.update_service('a', now)
        assert daemon.boot('one') == ['a']


def test_an_old_heartbeat_does_not_make_a_host_older(daemon):
    daemon.add('a')
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    daemon.stats.update_service('a', objects.Service(last_seen_up=long_ago))
    assert daemon.boot('one') == ['a']


def test_a_removed_node_takes_its_claims_along(daemon):
    daemon.add('a', 'b')
    daemon.boot('one', force_hosts=['a'])
    daemon.stats.remove_node('a', 'a')
    assert daemon.hosts_of('one') == {}
    assert daemon.boot('two') == ['b']
    with pytest.raises(errors.NodeNotFound, match='There is no node a on host a'):
        daemon.stats.remove_node('a', 'a')


def test_a_node_that_is_rebuilt_under_its_name_takes_the_place_of_the_old_one(daemon):
    daemon.add('a', vcpus=1)
    daemon.add('a', vcpus=2, uuid=uuid_of('another board'))
    assert [row[0] for row in daemon.table('nodes')] == [uuid_of('another board')]
    assert daemon.boot('one', vcpus=2) == ['a']


def test_one_host_with_several_nodes(daemon):
    for name in ('n1', 'n2'):
        daemon.stats.update_resource_stats('a', compute_node('a', nodename=name, vcpus=1))
    assert daemon.boot('one', 'two') == ['a', 'a']
    nodes = {
        claim.nodename for name in ('one', 'two') for claim in daemon.claims.show(uuid_of(name))
    }
    assert nodes == {'n1', 'n2'}
