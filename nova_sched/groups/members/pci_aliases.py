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
"""PCI devices that a flavor asks for by alias: reads the aliases and builds the requests."""

import functools
import json
import re

from oslo_utils import strutils, uuidutils

from nova_sched import errors, objects, words
from nova_sched.conf import CONF
from nova_sched.hardware.pci import LEGACY, PREFERRED, REQUIRED, SOCKET

OPTION = '[pci] alias'
EXTRA_SPEC = 'pci_passthrough:alias'
POLICIES = (LEGACY, PREFERRED, REQUIRED, SOCKET)
ID = re.compile('[0-9a-fA-F]{4}')

# Keys of an alias: None allows any text, else the allowed values.
WORDS = {
    'name': None,
    'vendor_id': None,
    'product_id': None,
    'resource_class': None,
    'traits': None,
    'live_migratable': None,
    'capability_type': ('pci',),
    'device_type': ('type-PCI', 'type-PF', 'type-VF'),
    'numa_policy': POLICIES,
}


def configured():
    """Return the aliases of the configuration. Raises BadConfig."""
    return read(tuple(CONF.pci.alias))


@functools.lru_cache(maxsize=4)
def read(texts):
    """Return the NUMA policy and the alternative devices of each alias, by name.

    ``texts`` are JSON objects. Raises BadConfig.
    """
    aliases: dict[str, tuple[str, list[dict[str, str]]]] = {}
    for text in texts:
        name, policy, device = _alias(text)
        known_policy, devices = aliases.setdefault(name, (policy, []))
        if devices and (known_policy, devices[0].get('dev_type')) != (
            policy,
            device.get('dev_type'),
        ):
            raise errors.BadConfig(
                OPTION, f'the alternatives of {name} differ in numa_policy or device_type'
            )
        devices.append(device)
    return aliases


def _alias(text):
    """Return name, NUMA policy and device of one alias."""
    try:
        alias = json.loads(text)
    except ValueError as error:
        raise errors.BadConfig(OPTION, f'{text[:80]!r} is not JSON: {error}') from None
    if not isinstance(alias, dict):
        raise errors.BadConfig(OPTION, f'{text[:80]!r} is not a JSON object')
    for key, value in alias.items():
        if key not in WORDS:
            raise errors.BadConfig(OPTION, f'{key!r} is not known; known are {", ".join(WORDS)}')
        if not isinstance(value, str) or value not in (WORDS[key] or (value,)):
            expected = ' or '.join(WORDS[key] or ['a string'])
            raise errors.BadConfig(OPTION, f'{key} is {json.dumps(value)}, not {expected}')
    name = alias.pop('name', '').strip()
    if not 1 <= len(name) <= 256:
        raise errors.BadConfig(OPTION, f'{text[:80]!r} has no name of 1 to 256 characters')
    policy = alias.pop('numa_policy', LEGACY)
    ids = [alias[key] for key in ('vendor_id', 'product_id') if key in alias]
    if not all(map(ID.fullmatch, ids)):
        raise errors.BadConfig(OPTION, f'the ids of {name} have to be four hexadecimal digits')
    if len(ids) < 2 and 'resource_class' not in alias:
        raise errors.BadConfig(
            OPTION, f'{name} needs vendor_id and product_id, or a resource_class'
        )
    if 'device_type' in alias:
        alias['dev_type'] = alias.pop('device_type')
    if 'live_migratable' in alias:
        try:
            movable = strutils.bool_from_string(alias['live_migratable'], strict=True)
        except ValueError as error:
            raise errors.BadConfig(OPTION, f'live_migratable of {name}: {error}') from None
        alias['live_migratable'] = str(movable).lower()
    return name, policy, alias


def requests(extra_specs, image, aliases):
    """Return the InstancePCIRequest objects for a flavor and an image (its ImageMetaProps).

    ``aliases`` are as returned by ``read``. Raises InvalidRequest.
    """
    override = _numa_policy(extra_specs, image)
    text = extra_specs.get(EXTRA_SPEC)
    return [_request(part, aliases, override) for part in text.split(',')] if text else []


def _request(part, aliases, override):
    name, _, count = (word.strip() for word in part.partition(':'))
    if name not in aliases:
        raise errors.InvalidRequest(
            EXTRA_SPEC, f'there is no alias {name!r} in {OPTION} of the schedulers'
        )
    try:
        number = words.whole(count, 1, words.MAX_INTEGER)
    except ValueError as error:
        why = f'{words.short(part.strip())} does not read name:count: {error}'
        raise errors.InvalidRequest(EXTRA_SPEC, why) from None
    policy, devices = aliases[name]
    return objects.InstancePCIRequest(
        count=number,
        spec=[dict(device) for device in devices],
        alias_name=name,
        numa_policy=override or policy,
        request_id=uuidutils.generate_uuid(),
    )


def _numa_policy(extra_specs, image):
    """Return the NUMA policy of flavor or image, which overrides the aliases; None if unset."""
    flavor = extra_specs.get('hw:pci_numa_affinity_policy')
    of_image = image.get('hw_pci_numa_affinity_policy')
    if flavor and flavor not in POLICIES:
        known = ', '.join(POLICIES)
        raise errors.InvalidRequest(
            'hw:pci_numa_affinity_policy', f'{flavor!r} is not one of {known}'
        )
    if flavor and of_image and flavor != of_image:
        why = f'the image wants {of_image}, the flavor is {flavor}'
        raise errors.InvalidRequest('hw_pci_numa_affinity_policy', why)
    return flavor or of_image
