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
"""Queries of Placement's allocation candidates, and what they tell before a request is refused."""

import json
import logging
import threading

import pytest

from nova_sched import errors
from nova_sched.cloud.candidates import CandidateReader, queries
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.rows import each_afresh, table
from nova_sched.tests.unit.cloud.doubles import node_uuid
from nova_sched.tests.unit.engine.world import World

SHARE = uuid_of('sharing provider')


class Placement:
    """Tells the candidates that a test has added."""

    def __init__(self):
        self.found, self.queries, self.problem = [], [], None
        self.hold = None

    def offer(self, *hosts, shared=None, group=None):
        """Candidates for hosts; ``shared`` are amounts of the sharing provider."""
        for host in hosts:
            uuid = node_uuid(host)
            taken = {uuid: {'resources': {'VCPU': 4}}}
            mappings = {'': [uuid]}
            if shared:
                taken[SHARE] = {'resources': shared}
                mappings.setdefault(group or '', []).append(SHARE)
            self.found.append({'allocations': taken, 'mappings': mappings})

    def allocation_candidates(self, query):
        self.queries.append(query)
        if self.hold:
            self.hold.wait(60)
        if self.problem:
            raise self.problem
        return {
            'allocation_requests': self.found,
            'provider_summaries': {
                uuid: {'root_provider_uuid': uuid}
                for one in self.found
                for uuid in one['allocations']
            },
        }


class Mirror:
    """Reads nodes; ``reports`` are those that the host state gets then."""

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self.reads, self.reports = [], []
        self.begun, self.hold = threading.Event(), None

    def host_of(self, uuid):
        return 'a host' if uuid != SHARE else None

    def read_nodes(self, uuids):
        self.reads.append(set(uuids))
        self.begun.set()
        if self.hold:
            self.hold.wait(60)
        for one in self.reports:
            self._scheduler.report(one)


class Cloud:
    """Two hosts with 2 VCPUs each."""

    def __init__(self):
        self.world, self.placement, self.now_s = World(retry_interval_s=0.001), Placement(), 0.0
        self.scheduler = self.world.scheduler
        self.scheduler.loop.start()
        self.mirror = Mirror(self.scheduler)
        self.reader = CandidateReader(
            self.scheduler, self.placement, self.mirror, lambda: self.now_s
        )
        for host in ('host-0', 'host-1'):
            self.scheduler.report(self.host(host))

    @staticmethod
    def host(name, vcpus=2, **words):
        return report(name, node_uuid=node_uuid(name), vcpus=vcpus, **words)

    def refused(self, **words):
        """The requests of a call that is refused, and after the query."""
        requests = [request(**{'instance_uuid': uuid_of('a'), 'vcpus': 4, **words})]
        with pytest.raises(errors.NoValidHost) as told:
            self.scheduler.place(requests)
        return requests, self.reader.requests_after(requests, told.value)


@pytest.fixture
def cloud():
    made = Cloud()
    yield made
    made.scheduler.loop.stop()


def test_a_node_that_placement_names_is_read_again(cloud):
    cloud.placement.offer('host-1')
    cloud.mirror.reports = [cloud.host('host-1', vcpus=8)]
    before, after = cloud.refused()
    assert after is before
    assert cloud.mirror.reads == [{node_uuid('host-1')}]
    assert cloud.scheduler.place(after)[0][0].host == 'host-1'


def test_requests_of_one_kind_wait_for_the_same_read(cloud):
    cloud.placement.offer('host-1')
    cloud.mirror.reports = [cloud.host('host-1', vcpus=8)]
    cloud.mirror.hold = threading.Event()
    placed = []

    def boot(name):
        _, after = cloud.refused(instance_uuid=uuid_of(name))
        placed.append(cloud.scheduler.place(after)[0][0].host)

    boots = [threading.Thread(target=boot, args=(name,)) for name in 'ab']
    boots[0].start()
    assert cloud.mirror.begun.wait(60)
    boots[1].start()
    boots[1].join(0.2)
    assert placed == []
    cloud.mirror.hold.set()
    for one in boots:
        one.join(60)
    assert placed == ['host-1'] * 2
    assert cloud.mirror.reads == [{node_uuid('host-1')}]


def test_a_read_that_fails_is_tried_by_the_next_request(cloud, monkeypatch):
    cloud.placement.offer('host-1')
    with monkeypatch.context() as broken:
        broken.setattr(cloud.mirror, 'read_nodes', _unavailable)
        with pytest.raises(errors.StoreUnavailable):
            cloud.refused()
    cloud.refused()
    assert cloud.mirror.reads == [{node_uuid('host-1')}]


def _unavailable(_uuids):
    raise errors.StoreUnavailable('away')


def test_placement_that_agrees(cloud):
    before, after = cloud.refused()
    assert after is before
    assert cloud.mirror.reads == []
    assert len(cloud.placement.queries) == 1


@each_afresh(
    'words',
    {
        'left out': {'vcpus': 1, 'ignore_hosts': {'host-0', 'host-1'}},
        'rebuild': {'hints': {'_nova_check_type': ['rebuild']}, 'force_hosts': {'x'}},
    },
)
def test_refusals_that_are_not_about_providers(cloud, words):
    if 'hints' in words:
        asked = [request(instance_uuid=uuid_of('a'), **words)]
        assert cloud.reader.requests_after(asked, errors.NoValidHost('no')) is asked
    else:
        cloud.refused(**words)
    assert cloud.placement.queries == []


def test_a_node_that_passes_here_too_is_not_read(cloud):
    """Another rule has removed it."""
    cloud.scheduler.report(cloud.host('host-1', vcpus=8))
    cloud.placement.offer('host-1')
    cloud.refused(ignore_hosts={'host-1'})
    assert cloud.mirror.reads == []


def test_one_answer_serves_a_kind_of_request_for_a_second(cloud):
    cloud.placement.offer('host-1')
    cloud.refused()
    cloud.refused(instance_uuid=uuid_of('b'))
    assert len(cloud.placement.queries) == 1
    assert cloud.mirror.reads == [{node_uuid('host-1')}]  # once for the answer
    cloud.refused(vcpus=5)
    assert len(cloud.placement.queries) == 2
    cloud.now_s += 1.0
    cloud.refused()
    assert len(cloud.placement.queries) == 3
    assert len(cloud.mirror.reads) == 3


def test_callers_at_the_same_time_share_an_answer(cloud):
    cloud.placement.hold = threading.Event()
    callers = [threading.Thread(target=cloud.refused) for _ in range(3)]
    for one in callers:
        one.start()
    cloud.placement.hold.set()
    for one in callers:
        one.join(60)
    assert len(cloud.placement.queries) == 1


def test_placement_that_does_not_answer(cloud, caplog):
    cloud.placement.problem = errors.PlacementUnavailable('away')
    with caplog.at_level(logging.INFO):
        for second in range(3):
            cloud.now_s = float(second)
            before, after = cloud.refused()
            assert after is before
        cloud.placement.problem, cloud.now_s = None, 9.0
        cloud.refused()
    told = [one.getMessage() for one in caplog.records if one.name.endswith('candidates')]
    assert len(told) == 2
    assert 'away' in told[0]


class TestSharingProviders:
    """An allocation request that takes from a sharing provider is claimed as it is."""

    def test_the_allocation_request(self, cloud):
        cloud.placement.offer('host-1', shared={'DISK_GB': 10})
        _, (asked,) = cloud.refused(vcpus=1, root_gb=2000)
        assert asked.resources['VCPU'] == 1
        assert 'DISK_GB' not in asked.resources
        assert asked.allocation_requests.keys() == {node_uuid('host-1')}
        ((chosen, *rest),) = cloud.scheduler.place([asked], alternates=True)
        assert (chosen.host, rest) == ('host-1', [])
        assert json.loads(chosen.allocation_request) == cloud.placement.found[0]
        (claim,) = cloud.world.store.claims()
        assert 'DISK_GB' not in claim.resources

    def test_a_local_candidate_comes_first(self, cloud):
        cloud.placement.offer('host-1', shared={'DISK_GB': 10})
        cloud.placement.offer('host-1')
        _, (asked,) = cloud.refused(vcpus=1, root_gb=2000)
        assert asked.allocation_requests == {}
        assert cloud.mirror.reads == [{node_uuid('host-1')}]

    def test_nodes_that_were_read_in_vain(self, cloud):
        cloud.placement.offer('host-0')
        cloud.placement.offer('host-1', shared={'DISK_GB': 10})
        _, (asked,) = cloud.refused(vcpus=1, root_gb=2000)
        assert cloud.mirror.reads == [{node_uuid('host-0')}]
        assert asked.allocation_requests.keys() == {node_uuid('host-1')}

    def test_a_group_from_a_sharing_provider_is_refused(self, cloud):
        cloud.placement.offer('host-1', shared={'DISK_GB': 10}, group='_disk')
        group = ResourceGroup('_disk', (('DISK_GB', 10),))
        _, (asked,) = cloud.refused(groups=(group,), group_policy='none')
        assert asked.allocation_requests == {}


A, B, NODE = uuid_of('aggregate a'), uuid_of('aggregate b'), uuid_of('node')
PORT = ResourceGroup('_port', (('NET_BW_EGR_KILOBIT_PER_SEC', 5),), frozenset({'CUSTOM_NET'}))
DISK = ResourceGroup('_disk', (('DISK_GB', 5),), in_tree=NODE)
PLAIN = {
    'limit': 1000,
    'resources': 'MEMORY_MB:512,VCPU:1',
    'root_required': '!COMPUTE_STATUS_DISABLED',
}


def asked(in_tree=None, zone=(), is_owned=False, **words):
    known = {'resources': {'VCPU': 1, 'MEMORY_MB': 512}}
    return queries(request(**{**known, **words}), in_tree, zone, is_owned)


@table(
    'words, more',
    {
        'plain': ({}, {}),
        'providers of Nova': (
            {'is_owned': True},
            {'root_required': 'OWNER_NOVA,!COMPUTE_STATUS_DISABLED'},
        ),
        'a zone': ({'zone': {A}}, {'member_of': [f'in:{A}']}),
        'aggregates': (
            {
                'zone': {A},
                'destination': RequestedDestination(
                    aggregates=(frozenset({A, B}),), forbidden_aggregates=frozenset({B})
                ),
            },
            {'member_of': [f'in:{",".join(sorted([A, B]))}', f'in:{A}', f'!in:{B}']},
        ),
        'traits': (
            {'required_traits': frozenset({'X', 'W'}), 'forbidden_traits': frozenset({'Y'})},
            {'required': 'W,X,!Y'},
        ),
        'traits of the node itself': (
            {'root_required': frozenset({'X'}), 'root_forbidden': frozenset({'Y'})},
            {'root_required': 'X,!COMPUTE_STATUS_DISABLED,!Y'},
        ),
        'a group needs no policy': (
            {'groups': (PORT,), 'group_policy': 'none'},
            {'resources_port': 'NET_BW_EGR_KILOBIT_PER_SEC:5', 'required_port': 'CUSTOM_NET'},
        ),
        'groups': (
            {
                'groups': (PORT, DISK),
                'group_policy': 'isolate',
                'same_subtree': (frozenset({'_port', '_disk'}),),
            },
            {
                'resources_port': 'NET_BW_EGR_KILOBIT_PER_SEC:5',
                'required_port': 'CUSTOM_NET',
                'resources_disk': 'DISK_GB:5',
                'in_tree_disk': NODE,
                'group_policy': 'isolate',
                'same_subtree': ['_disk,_port'],
            },
        ),
    },
)
def test_the_query(words, more):
    assert asked(**words) == [{**PLAIN, **more}]


def test_one_node_is_asked_for_first():
    assert asked(in_tree=NODE) == [{**PLAIN, 'in_tree': NODE}, PLAIN]


def test_shared_cpus_in_place_of_dedicated_ones_are_asked_for_second():
    found = asked(resources={'PCPU': 2, 'MEMORY_MB': 512}, fallback_vcpus=2)
    assert [one['resources'] for one in found] == ['MEMORY_MB:512,PCPU:2', 'MEMORY_MB:512,VCPU:2']
