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
"""Simulated conductors: boot servers through the real client, each from a separate thread."""

import collections
import contextlib
import dataclasses
import time

from nova_sched import errors, objects
from nova_sched.rpc import conductor, translate

PROJECT, USER = 'a5c0bd0e8d6f4b0f9d43b7b9f5e0c1d2', '0c9f3a8d1e2b4c5d8e7f6a5b4c3d2e1f'
IMAGE = '6a2c9f0e-5b1d-4c3e-8f7a-9d8e7c6b5a49'


@dataclasses.dataclass(frozen=True, slots=True)
class Boot:
    """The result of one request.

    ``hosts`` maps each server that runs to its host. ``reason`` is the reason of a refusal, None
    if there was none. ``moved`` servers run on an alternate, ``failed`` ones were built on no
    host. ``latency_s`` is the time that the conductor waited for select_destinations.
    """

    hosts: dict
    latency_s: float
    reason: str | None = None
    moved: int = 0
    failed: int = 0


class SimulatedConductor:
    """Any number of threads may boot at once. ``hosts`` builds the placed servers."""

    def __init__(self, bus, hosts):
        self._conductor = conductor.Conductor(bus)
        self._hosts = hosts

    def boot(self, spec_obj, uuids):
        """Place the servers and build each, on an alternate if needed."""
        begin_s = time.perf_counter()
        try:
            placed = self._conductor.scheduler.select_destinations(spec_obj, uuids)
        except errors.SchedError as error:
            return Boot(
                {}, time.perf_counter() - begin_s, getattr(error, 'reason', None) or str(error)
            )
        latency_s = time.perf_counter() - begin_s
        requests = {
            request.instance_uuid: request for request in translate.requests(spec_obj, uuids)
        }
        hosts, builds, failed = {}, collections.Counter(), 0

        def build(uuid, selection):
            builds[uuid] += 1
            self._hosts.build(requests[uuid], selection)

        for uuid, selections in zip(uuids, placed, strict=True):
            try:
                hosts[uuid] = self._conductor.build_instance(
                    spec_obj, uuid, selections, build
                ).service_host
            except errors.MaxRetriesExceeded:
                failed += 1
        moved = sum(builds[uuid] > 1 for uuid in hosts)
        return Boot(hosts, latency_s, None, moved, failed)

    def abandon(self, instance_uuid):
        """End the claim of a server that was deleted before its node reported it; nothing else
        ends it."""
        claims = self._conductor.claims
        for claim in claims.show(instance_uuid):
            with contextlib.suppress(errors.Outdated):
                claims.abort_claim(instance_uuid, claim=claim.name)


def spec(flavor, uuids, zone=None, extra_specs=None, image_properties=None):
    """Return the RequestSpec that a conductor sends for servers of this flavor, in a zone if one
    is given."""
    return objects.RequestSpec(
        instance_uuid=uuids[0],
        num_instances=len(uuids),
        project_id=PROJECT,
        user_id=USER,
        availability_zone=zone,
        flavor=objects.Flavor(
            id=1,
            flavorid=flavor.name,
            name=flavor.name,
            vcpus=flavor.vcpus,
            memory_mb=flavor.memory_mb,
            root_gb=0,
            ephemeral_gb=0,
            swap=0,
            extra_specs=extra_specs or {},
        ),
        image=objects.ImageMeta(
            id=IMAGE, properties=objects.ImageMetaProps(**image_properties or {})
        ),
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(instance_uuid=uuids[0], requests=[]),
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        retry=None,
        limits=objects.SchedulerLimits(),
        instance_group=None,
        scheduler_hints={},
        is_bfv=False,
    )
