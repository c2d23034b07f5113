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
"""RequestSpecs as Nova's API and conductor make them, from components."""

from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware
from oslo_utils import uuidutils

IMAGE = {
    'id': '11111111-1111-4111-8111-111111111111',
    'name': 'debian',
    'status': 'active',
    'container_format': 'bare',
    'disk_format': 'qcow2',
    'size': 1048576,
    'min_ram': 0,
    'min_disk': 0,
    'owner': 'demo',
}
FLAVOR = {
    'id': 1,
    'flavorid': 'small',
    'name': 'small',
    'vcpus': 1,
    'memory_mb': 512,
    'root_gb': 1,
    'ephemeral_gb': 0,
    'swap': 0,
    'rxtx_factor': 1.0,
    'vcpu_weight': 0,
    'extra_specs': {},
    'is_public': True,
    'disabled': False,
}


def uuids(count):
    """UUIDs of new instances."""
    return [uuidutils.generate_uuid() for _ in range(count)]


def spec(
    context,
    instance_uuids,
    *,
    flavor=None,
    image=None,
    image_id=IMAGE['id'],
    project_id=None,
    group=None,
    zone=None,
    hints=None,
    is_bfv=False,
    **filter_properties,
):
    """What a conductor asks for these instances.

    ``flavor`` has fields that differ from FLAVOR, ``image`` properties of the image; NUMA cells
    and PCI devices are what these ask for, as Nova's API reads them. What is left over goes into
    the filter properties: force_hosts, ignore_hosts, requested_destination, retry.
    """
    picture = {**IMAGE, 'id': image_id, 'properties': image or {}}
    flavor = objects.Flavor(context, **{**FLAVOR, **(flavor or {})})
    request = objects.RequestSpec.from_components(
        context,
        instance_uuids[0],
        picture,
        flavor,
        numa_topology=hardware.numa_get_constraints(flavor, objects.ImageMeta.from_dict(picture)),
        pci_requests=pci_request.get_pci_requests_from_flavor(
            flavor,
            hardware.get_pci_numa_policy_constraint(flavor, objects.ImageMeta.from_dict(picture)),
        ),
        filter_properties={'scheduler_hints': hints or {}, **filter_properties},
        instance_group=group,
        availability_zone=zone,
        security_groups=objects.SecurityGroupList(objects=[]),
    )
    request.is_bfv = is_bfv
    if project_id is not None:
        request.project_id = project_id
    request.num_instances = len(instance_uuids)
    return request


def group(context, policy, members, *, hosts=(), **rules):
    """A server group, with the instances to be scheduled among its members as Nova's API puts them
    there."""
    return objects.InstanceGroup(
        context,
        uuid=uuidutils.generate_uuid(),
        name=policy,
        project_id=context.project_id,
        user_id=context.user_id,
        policy=policy,
        policies=[policy],
        rules={name: str(value) for name, value in rules.items()},
        members=list(members),
        hosts=list(hosts),
    )


def destination(**fields):
    """Where the caller wants it; ``cell`` is a UUID."""
    if 'cell' in fields:
        fields['cell'] = objects.CellMapping(
            uuid=fields['cell'],
            name='cell',
            transport_url='rabbit://user:secret@cell.example/',
            database_connection='mysql+pymysql://user:secret@cell.example/nova',
        )
    return objects.Destination(**fields)


def rebuild(node):
    """The words of ``spec`` for the check of a rebuild: Nova forces it to the server's node."""
    return {
        'hints': {'_nova_check_type': ['rebuild']},
        'requested_destination': destination(host=node.host, node=node.hypervisor_hostname),
        'force_hosts': [node.host],
        'force_nodes': [node.hypervisor_hostname],
    }
