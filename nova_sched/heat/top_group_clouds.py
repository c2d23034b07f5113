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
"""Flavors and images of the cloud, in the form of the scheduler's API."""

# The attributes that Glance sets on every image; all others are properties.
OF_EVERY_IMAGE = frozenset(
    'checksum container_format created_at direct_url disk_format file id locations min_disk '
    'min_ram name os_hash_algo os_hash_value os_hidden owner protected schema self size status '
    'stores tags updated_at virtual_size visibility'.split()
)


def flavors(nova, names):
    """Returns flavors by the names or IDs that servers ask for; ``nova`` is Heat's client plug-in
    for Nova."""
    return {name: _flavor(nova.get_flavor(name)) for name in sorted(names)}


def images(glance, names):
    """Returns images in the same way."""
    return {name: _image(glance.get_image(name)) for name in sorted(names)}


def _flavor(found):
    return {
        'name': found.name,
        'vcpus': found.vcpus,
        'ram': found.ram,
        'disk': found.disk,
        'ephemeral': getattr(found, 'OS-FLV-EXT-DATA:ephemeral', 0),
        'swap': found.swap or 0,  # empty text if there is none
        'extra_specs': found.get_keys(),
    }


def _image(found):
    described = {
        key: found[key] for key in ('id', 'name', 'disk_format') if found.get(key) is not None
    }
    properties = {
        key: value
        for key, value in found.items()
        if key not in OF_EVERY_IMAGE and isinstance(value, str | int | float)
    }
    return {**described, 'properties': properties}
