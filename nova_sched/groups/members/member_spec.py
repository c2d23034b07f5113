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
"""The request for a member as Nova's API would send it, and its differences from the plan."""

import json

from oslo_utils import uuidutils

from nova_sched import errors, objects, words
from nova_sched.groups.members import guest_numa, pci_aliases
from nova_sched.state import fields, traits

# Image properties that a host must support, whether the plan names them or not. Other properties
# count only if the plan names them: a template need not repeat all properties from Glance.
DECISIVE = frozenset(
    [
        *traits.OF_IMAGES,
        'hw_architecture',
        'hw_cpu_policy',
        'hw_cpu_realtime_mask',
        'hw_cpu_thread_policy',
        'hw_firmware_stateless',
        'hw_locked_memory',
        'hw_maxphysaddr_bits',
        'hw_mem_page_size',
        'hw_numa_cpus',
        'hw_numa_mem',
        'hw_numa_nodes',
        'hw_pci_numa_affinity_policy',
        'hw_vm_mode',
        'img_hv_requested_version',
        'img_hv_type',
        'traits_required',
    ]
)
# Prefixes of extra specs that do not affect the choice of a host.
IDLE = ('quota:', 'hw_rng:', 'hw_video:')
NOTHING = 'nothing'


def spec_of(member, project_id=None, user_id=None, instance_uuid=None, aliases=None):
    """Return the RequestSpec of one instance that is to be this member, without the group's hints.

    Without an ``instance_uuid`` a new one is generated. ``aliases`` of PCI devices are those of
    the configuration by default (see ``pci_aliases.read``). Raises InvalidRequest if Nova's API
    would refuse the request, and BadConfig for invalid aliases.
    """
    aliases = pci_aliases.configured() if aliases is None else aliases
    instance_uuid = instance_uuid or uuidutils.generate_uuid()
    try:
        # The template was read by these rules too, but not where an earlier release stored it.
        for name in member.hints:
            if why := words.why_internal(words.HINT, name):
                raise errors.InvalidRequest('scheduler_hints', why)
        flavor, image = _flavor(member.flavor), _image(member.image)
        wanted = flavor.extra_specs, image.properties
        spec = objects.RequestSpec(
            instance_uuid=instance_uuid,
            num_instances=1,
            project_id=project_id,
            user_id=user_id,
            availability_zone=member.availability_zone,
            flavor=flavor,
            image=image,
            numa_topology=guest_numa.topology(flavor.vcpus, flavor.memory_mb, *wanted),
            pci_requests=objects.InstancePCIRequests(
                instance_uuid=instance_uuid, requests=pci_aliases.requests(*wanted, aliases)
            ),
            ignore_hosts=None,
            force_hosts=None,
            force_nodes=None,
            retry=None,
            limits=objects.SchedulerLimits(
                numa_topology=None, vcpu=None, disk_gb=None, memory_mb=None
            ),
            instance_group=None,
            scheduler_hints={name: _strings(value) for name, value in member.hints.items()},
            is_bfv=member.boots_from_volume,
            requested_resources=[],
            request_level_params=objects.RequestLevelParams(),
        )
        spec.obj_set_defaults()
    except (errors.InvalidRequest, errors.MalformedObject) as refused:
        where, why = refused.args
        raise errors.InvalidRequest(f'member {member.path}, {where}', why) from None
    except (ValueError, TypeError) as error:
        raise errors.InvalidRequest(f'member {member.path}', str(error)[:200]) from None
    return spec


def _flavor(flavor):
    name = flavor.name or 'inline'
    return objects.Flavor(
        id=0,
        name=name,
        flavorid=name,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
        root_gb=flavor.root_gb,
        ephemeral_gb=flavor.ephemeral_gb,
        swap=flavor.swap,
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        extra_specs=dict(flavor.extra_specs),
    )


def _image(image):
    if image is None:
        return objects.ImageMeta.from_dict({})
    known = {'id': image.id, 'name': image.name, 'disk_format': image.disk_format}
    return objects.ImageMeta.from_dict({**known, 'properties': dict(image.properties)})


def _strings(value):
    """Return a hint as it is sent: a list of strings."""
    every = value if isinstance(value, (list, tuple)) else [value]
    return [item if isinstance(item, str) else json.dumps(item) for item in every]


def differs(member, spec):
    """Return the first difference of a RequestSpec from the plan: (field, planned, asked), or
    None.

    Both values are strings or numbers, for messages.
    """
    for field, planned, requested in _compared(member, spec):
        if planned != requested:
            return field, _shown(planned), _shown(requested)
    return None


def _compared(member, spec):
    """Yield what the plan and the request have in common: (field, planned, asked)."""
    flavor, image = member.flavor, member.image
    for name in ('vcpus', 'memory_mb', 'ephemeral_gb', 'swap'):
        yield f'flavor.{name}', getattr(flavor, name), int(fields.flavor(spec, name))
    yield 'boot from volume', member.boots_from_volume, fields.is_bfv(spec)
    if not member.boots_from_volume:
        yield 'flavor.root_gb', flavor.root_gb, fields.flavor(spec, 'root_gb')
    yield 'availability_zone', member.availability_zone, fields.read(spec, 'availability_zone')
    # A request to boot from a volume does not contain the image of the volume.
    if image is not None and not member.boots_from_volume:
        for name in ('id', 'disk_format'):
            if planned := getattr(image, name):
                yield f'image.{name}', planned, fields.read(fields.read(spec, 'image'), name)
    specs = fields.extra_specs(spec)
    for key in sorted({*flavor.extra_specs, *specs}):
        if not key.startswith(IDLE):
            yield f'extra spec {key}', flavor.extra_specs.get(key), specs.get(key)
    properties, requested = _image(image).properties.set_fields(), fields.image_properties(spec)
    for name in sorted({*properties, *(DECISIVE & requested.keys())}):
        yield (
            f'image property {name}',
            _ordered(properties.get(name)),
            _ordered(requested.get(name)),
        )


def _ordered(value):
    """Traits have no order; an empty list equals no list, and a disabled switch equals no
    switch."""
    if value == [] or value is False:
        return None
    return (
        sorted(value)
        if isinstance(value, list) and all(isinstance(item, str) for item in value)
        else value
    )


def _shown(value):
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    return value if isinstance(value, (int, float)) else str(value)[:100]
