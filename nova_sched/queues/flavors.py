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
"""A flavor as the table keeps it, from what an operator says."""

from collections.abc import Mapping
from typing import Any

from nova_sched import errors
from nova_sched.queues.catalogue import AMOUNTS, LONGEST, Catalogue, flavor_of


def checked(row: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """The row of a flavor: `name`, `vcpus`, `memory_mb`, and what else there is to say; made at
    ``now_s``.

    Its `flavorid` is its name if none is given. Raises InvalidRequest for one that makes no sense,
    and BadConfig for aliases of PCI devices that do not.
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
