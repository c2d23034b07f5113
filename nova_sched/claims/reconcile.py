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
"""A node's report against the claims on it: which are settled, and what use nobody claimed."""

from typing import NamedTuple

from nova_sched.objects.claiming import CONFIRMED, PCPU, VCPU


class Settled(NamedTuple):
    """``confirmed``, ``counted`` and ``released`` are consumers; ``foreign`` is by resource class.

    ``counted`` are those whose CPUs and devices the report has in use, and did not have before.
    """

    confirmed: tuple[str, ...]
    released: tuple[str, ...]
    foreign: dict[str, int]
    foreign_instances: int
    counted: tuple[str, ...] = ()


def settle(report, claims):
    """Settle the claims (by consumer) of the node that made the report.

    With a list of instances: a claim whose instance is listed is confirmed, a confirmed one that
    is not listed any more is released, and one that the node does not know of yet stays as it is.
    Without a list, nothing changes state, and the confirmed claims explain the use.
    """
    if report.instances is None:
        confirmed, released = (), ()
        explained = [claim for claim in claims.values() if claim.state == CONFIRMED]
        strangers = report.num_instances - len(explained)
    else:
        listed = report.instances
        explained = [claim for consumer, claim in claims.items() if consumer in listed]
        confirmed = tuple(claim.consumer_uuid for claim in explained if claim.state != CONFIRMED)
        released = tuple(consumer for consumer, claim in claims.items()
                         if claim.state == CONFIRMED and consumer not in listed)  # fmt: skip
        strangers = len(listed - claims.keys())
    counted = tuple(claim.consumer_uuid for claim in explained if claim.parts and not claim.counted)
    return Settled(confirmed, released, foreign_use(report, explained), max(0, strangers), counted)


def foreign_use(report, explained):
    """Use that the node reports and neither its reserve nor these claims explain; never negative."""
    claimed = dict.fromkeys(report.used, 0)
    for claim in explained:
        for name, amount in claim.resources.items():
            # A node that does not count dedicated CPUs apart counts them among its vCPUs.
            counted = VCPU if name == PCPU and PCPU not in report.used else name
            claimed[counted] = claimed.get(counted, 0) + amount
    return {
        name: left
        for name, used in report.used.items()
        if (left := used - _reserved(report, name) - claimed[name]) > 0
    }


def _reserved(report, name):
    inventory = report.inventories.get(name)
    return inventory.reserved if inventory else 0
