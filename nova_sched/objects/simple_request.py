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

"""A RequestSpec from a flavor and a few words, as a person asks for a server."""

import uuid

from nova_sched.objects.image_meta import ImageMeta
from nova_sched.objects.pci import InstancePCIRequests
from nova_sched.objects.request_spec import RequestSpec
from nova_sched.objects.selection import SchedulerLimits


def simple_request(
    flavor,
    count=1,
    project_id=None,
    zone=None,
    image=None,
    image_properties=(),
    hints=(),
    ignore_hosts=None,
    force_hosts=None,
):
    """A RequestSpec for ``count`` new servers of a Flavor. ``image_properties`` and ``hints`` are
    pairs; a hint may be repeated.

    It has no NUMA cells and no PCI devices: Nova's API computes them.
    """
    server, gathered = str(uuid.uuid4()), {}
    for key, value in hints:
        gathered.setdefault(key, []).append(value)
    return RequestSpec(
        instance_uuid=server,
        num_instances=count,
        project_id=project_id,
        user_id=None,
        availability_zone=zone,
        flavor=flavor,
        image=ImageMeta.from_dict({'id': image, 'properties': dict(image_properties)}),
        numa_topology=None,
        pci_requests=InstancePCIRequests(instance_uuid=server, requests=[]),
        ignore_hosts=ignore_hosts,
        force_hosts=force_hosts,
        force_nodes=None,
        requested_destination=None,
        retry=None,
        limits=SchedulerLimits(),
        instance_group=None,
        scheduler_hints=gathered,
        is_bfv=False,
    )
