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
"""The fields of a RequestSpec, or of any object with its attribute names, that several properties
are read from."""

import math

from nova_sched import words


def read(thing, name, default=None):
    """Return an attribute, or the default if it is unset (objects raise for that) or missing."""
    if thing is None:
        return default
    if (
        hasattr(type(thing), 'obj_attr_is_set')
        and name in thing.fields
        and not thing.obj_attr_is_set(name)
    ):
        return default
    return getattr(thing, name, default)


def flavor(spec, name, default=0):
    return read(read(spec, 'flavor'), name, default) or default


def extra_specs(spec):
    return flavor(spec, 'extra_specs', None) or {}


def image_properties(spec):
    """Return the properties that are set, by name; empty for a request without an image."""
    properties = read(read(spec, 'image'), 'properties')
    if properties is None:
        return {}
    if hasattr(properties, 'set_fields'):
        values = properties.set_fields()
    elif hasattr(properties, 'fields'):
        values = {name: read(properties, name) for name in properties.fields if name in properties}
    else:
        values = dict(properties) if hasattr(properties, 'keys') else dict(vars(properties))
    return {name: value for name, value in values.items() if value is not None}


def cpu_policy(spec):
    """Return the guest's CPU policy: from the flavor, else from the image; None: not set."""
    return extra_specs(spec).get('hw:cpu_policy') or image_properties(spec).get('hw_cpu_policy')


def thread_policy(spec):
    return extra_specs(spec).get('hw:cpu_thread_policy') or image_properties(spec).get(
        'hw_cpu_thread_policy'
    )


def swap_mb(spec):
    return words.whole(flavor(spec, 'swap'))


def is_bfv(spec):
    return bool(read(spec, 'is_bfv', False))


def disk_gb(spec):
    """Return the requested local disk in whole GiB: no root disk if that is a volume; swap
    rounded up."""
    root = 0 if is_bfv(spec) else flavor(spec, 'root_gb')
    return root + flavor(spec, 'ephemeral_gb') + math.ceil(swap_mb(spec) / 1024)
