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
"""What a node has inside, and whether a request fits in: NUMA cells and PCI devices.

All here is values that never change, and functions from values to values: a fit looks and changes
nothing, a take returns what is left. ``numa`` and ``pci`` are the doors of the room.
"""

from typing import Any

from nova_sched import errors


class Overdrawn(errors.SchedError):
    """Something is taken that is not free, or given back that nobody has; nothing has changed."""

    facts = ('what', 'why')
    message = '{what}: {why}'


def read(thing: Any, name: str, default: Any = None) -> Any:
    """An attribute, or the default if it is missing, None or unset (versioned objects raise for
    that)."""
    try:
        value = getattr(thing, name)
    except (AttributeError, NotImplementedError):
        return default
    return default if value is None else value
