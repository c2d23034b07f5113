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
"""ImagePropertiesFilter."""

import types

import numpy as np
from oslo_utils import versionutils

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.filters import Filter, reasons
from nova_sched.filters.compute_capabilities import walk
from nova_sched.objects import fields
from nova_sched.state.facts import LASTING

WORDS = types.MappingProxyType(
    {
        'hw_architecture': fields.ArchitectureField(),
        'img_hv_type': fields.HVTypeField(),
        'hw_vm_mode': fields.VMModeField(),
    }
)
READ = (*WORDS, 'img_hv_requested_version', 'hw_maxphysaddr_bits')


def wanted(properties):
    """Return the values that one triple (architecture, hypervisor type, VM mode) of the host must
    contain."""
    effective = {
        'hw_architecture': CONF.filter_scheduler.image_properties_default_architecture,
        **properties,
    }
    words = set()
    for name, field in WORDS.items():
        if effective.get(name):
            try:
                words.add(field.coerce(None, name, effective[name]))
            except ValueError as error:
                raise errors.InvalidRequest(f'image property {name}', str(error)) from None
    return words


def _satisfying(column, text):
    """Return which versions (2001000 is 2.1.0; 0 is unknown and passes) satisfy a text like
    `>=2.0, <3.0`."""
    try:
        predicate = versionutils.VersionPredicate(text)
    except ValueError as error:
        raise errors.InvalidRequest(
            'image property img_hv_requested_version', str(error)
        ) from None
    versions, places = np.unique(column, return_inverse=True)
    holds = [
        version <= 0 or predicate.satisfied_by(versionutils.convert_version_to_str(version))
        for version in versions.tolist()
    ]
    return np.array(holds, dtype=bool)[places]


def _reaches(cpu_info, bits):
    """Return whether guests may have physical addresses of that many bits; true if the host does
    not report it."""
    reported = walk(cpu_info, ('maxphysaddr', 'bits'))
    return not isinstance(reported, int) or reported >= bits


class ImagePropertiesFilter(Filter):
    """The hypervisor can run the image.

    One of the host's supported triples has the image's architecture, hypervisor type and VM mode,
    as far as they are set. The hypervisor's version and its physical address bits meet the image's
    conditions. An image that sets none of the three runs anywhere.
    """

    for_tenants = 'they do not support the image'
    run_filter_once_per_request = True
    RUN_ON_REBUILD = True
    host_facts = LASTING
    request_facts = ('image_properties',)

    def mask(self, hosts, request):
        properties = request.image_properties
        words = wanted(properties)
        if not words:
            return True
        fits = hosts.map(
            'supported_instances', lambda triples: any(map(words.issubset, triples or ()))
        )
        if properties.get('img_hv_requested_version'):
            fits &= _satisfying(hosts.hypervisor_version, properties['img_hv_requested_version'])
        if properties.get('hw_maxphysaddr_bits'):
            fits &= hosts.map(
                'cpu_info', lambda text: _reaches(text, properties['hw_maxphysaddr_bits'])
            )
        return fits

    def depends_on(self, request):
        properties = request.image_properties
        default = CONF.filter_scheduler.image_properties_default_architecture
        return default, *(properties.get(name) for name in READ)

    def why(self, hosts, request, rows):
        properties = request.image_properties
        words, wanted_version = wanted(properties), properties.get('img_hv_requested_version')
        runs = hosts.map(
            'supported_instances', lambda triples: any(map(words.issubset, triples or ()))
        )[rows]
        if not runs.all():
            return f'the image is for {" ".join(sorted(words))}, {_supported(hosts, rows[~runs])}'
        if wanted_version:
            versions = hosts.hypervisor_version[rows]
            old = ~_satisfying(versions, wanted_version)
            if old.any():
                newest = versionutils.convert_version_to_str(int(versions[old].max()))
                has = 'the host has' if len(rows) == 1 else 'the newest has'
                return (
                    f'the image asks for a hypervisor of version {wanted_version}, {has} {newest}'
                )
        bits = properties.get('hw_maxphysaddr_bits')
        has = 'the host has' if len(rows) == 1 else 'these hosts have'
        return f'the image needs physical addresses of {bits} bits, {has} fewer'


def _supported(hosts, rows):
    """Return the guests that the hosts support instead."""
    triples = {triple for slot in set(hosts.supported_instances[rows].tolist())
               for triple in hosts.interned['supported_instances'].values[slot] or ()}  # fmt: skip
    if not triples:
        return (
            'the host reports no supported guest types'
            if len(rows) == 1
            else 'these hosts report no supported guest types'
        )
    runs = 'the host runs' if len(rows) == 1 else 'these hosts run'
    return f'{runs} {reasons.listed(" ".join(map(str, triple)) for triple in triples)}'
