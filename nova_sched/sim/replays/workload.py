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
"""What a replay needs to know of a data set."""

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from nova_sched.state.report import Inventory, Report
from nova_sched.state.request import Request

NAMESPACE = uuid.UUID('5bdb1f5c-6f5e-4f0c-8d1c-0a4c5f0f7f11')


class Arrival(NamedTuple):
    """Servers that are asked for together, all or nothing: a Request for each.

    Each counts ``amount`` of the load, and they are of one ``kind``, a word for the table.
    ``lifetimes_s`` has an entry for each; None: it stays for ever. Empty: all do.
    """

    requests: tuple[Request, ...]
    amount: int
    kind: str
    time_s: float = 0.0
    lifetimes_s: tuple[float | None, ...] = ()


@dataclasses.dataclass(frozen=True)
class Workload:
    """Hosts and servers. ``arrivals(seed)`` returns the Arrivals in their order.

    ``unit`` names what ``capacity``, that of all hosts, and the amounts of servers count.
    ``options`` of the configuration belong to the experiment, whatever the policy. ``end_s`` is
    when the trace ends, None for one without times. Empty hosts count from ``measured_s`` on.
    """

    name: str
    unit: str
    reports: list[Report]
    capacity: int
    arrivals: Callable[[int], Iterable[Arrival]]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    measured_s: float = 0.0
    end_s: float | None = None


def uuid_of(name: str) -> str:
    """Returns the UUID of a node or of a provider by its name."""
    return str(uuid.uuid5(NAMESPACE, name))


def server_uuid(number: int) -> str:
    """Returns the UUID of a server by its number."""
    return f'{number:08x}-0000-4000-8000-000000000000'


def report(host: str, amounts: Mapping[str, int], **fields: Any) -> Report:
    """Returns the report of an empty host with these totals by resource class."""
    return Report(
        node_uuid=uuid_of(host),
        host=host,
        nodename=host,
        inventories={name: Inventory(amount) for name, amount in amounts.items()},
        used=dict.fromkeys(amounts, 0),
        **fields,
    )
