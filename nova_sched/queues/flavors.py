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
"""Makes the row of a flavor from an operator's input."""

from collections.abc import Mapping
from typing import Any

from nova_sched import errors
from nova_sched.queues.catalogue import AMOUNTS, LONGEST, Catalogue, flavor_of


def checked(row: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """Returns the row of a flavor, made at ``now_s``, from `name`, `vcpus`, `memory_mb` and other
    keys.

    Its `flavorid` defaults to its name. Raises InvalidRequest for an invalid flavor, and BadConfig
    for invalid aliases of PCI devices.
    """
    flavor = flavor_of(row)
    flavorid = row.get('flavorid') or flavor.name
    if not isinstance(flavorid, str) or not flavorid.isprintable() or len(flavorid) > LONGEST:
        why = f'{flavorid!r:.80} is no printable text of at most {LONGEST} characters'
        raise errors.InvalidRequest(f'flavor {flavor.name}, flavorid', why)
    amounts = {name: getattr(flavor, name) for name in AMOUNTS}
    made = {
        'name': flavor.name,
        'flavorid': flavorid,
        **amounts,
        'extra_specs': dict(flavor.extra_specs),
    }
    Catalogue.of(0, [made])
    return {**made, 'created_s': now_s}
