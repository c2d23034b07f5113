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
"""RequestSpecs from a few words, with everything else as a conductor sends it. All objects are
Nova's."""

from nova import objects

from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.cloud import CELL

PROJECT = 'demo'


def spec(instance_uuid, words):
    """The RequestSpec of an instance.

    Words: ``extra_specs``, ``vcpus`` and ``flavor_name`` of the flavor; ``image``, its properties
    or None for no image; ``image_id``, None for an image without one; ``hints``; any other word is
    a field of the spec.
    """
    words = dict(words)
    given = {
        'extra_specs': words.pop('extra_specs', {}),
        'name': words.pop('flavor_name', 'm1.small'),
        'vcpus': words.pop('vcpus', 1),
    }
    flavor = objects.Flavor(**specs.FLAVOR | given)
    image = _image(words.pop('image', {}), words.pop('image_id', specs.IMAGE['id']))
    facts = {
        'image': image,
        'flavor': flavor,
        'scheduler_hints': words.pop('hints', {}),
        'instance_uuid': instance_uuid,
        'project_id': PROJECT,
        'user_id': 'user',
        'num_instances': 1,
        'availability_zone': None,
        'ignore_hosts': None,
        'force_hosts': None,
        'force_nodes': None,
        'requested_destination': None,
        'retry': None,
        'limits': objects.SchedulerLimits(),
        'instance_group': None,
        'numa_topology': None,
        'pci_requests': objects.InstancePCIRequests(requests=[]),
        'is_bfv': False,
        'requested_resources': [],
        'request_level_params': objects.RequestLevelParams(),
        'security_groups': objects.SecurityGroupList(objects=[]),
    }
    return objects.RequestSpec(**facts | words)


def _image(properties, image_id):
    if properties is None:
        return None
    made = objects.ImageMeta(
        name='debian',
        disk_format='qcow2',
        container_format='bare',
        properties=objects.ImageMetaProps(**properties),
    )
    if image_id is not None:
        made.id = image_id
    return made


def group(policy, members, *, hosts=(), rules=None):
    """A server group; ``rules`` of None are none at all, as old RequestSpecs have it."""
    made = objects.InstanceGroup(
        uuid='00000000-0000-4000-8000-00000000c0de',
        policy=policy,
        policies=[policy],
        members=list(members),
        hosts=list(hosts),
    )
    if rules is not None:
        made._rules = rules
    return made


def destination(cell=CELL, *, allow_cross_cell_move=False):
    """Any host, in a cell or preferably in it; of no cell if that is None."""
    wanted = specs.destination(**{'cell': cell} if cell else {})
    wanted.allow_cross_cell_move = allow_cross_cell_move
    return wanted
