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
"""Asks a running engine, through its public interface, why a request has no valid host, and how
long a request takes."""

import dataclasses
import time
import uuid

from nova_sched import errors
from nova_sched.rpc import translate
from nova_sched.sim import conductor
from nova_sched.sim.machines import FAST_CPU
from nova_sched.sim.trace import Flavor

SMALL = Flavor('small', 1, 1024)


@dataclasses.dataclass(frozen=True, slots=True)
class Explained:
    """``steps`` are the engine's: (rule, hosts that it saw, hosts that it left), in order."""

    asked: str
    reason: str
    steps: tuple


def refusal(scheduler, zone):
    """Asks a running engine for hardware that no simulated node has, in a zone. Returns None if it
    finds a host."""
    flavor, server = Flavor('impossible', 4, 28 * 1024), str(uuid.uuid4())
    spec = conductor.spec(
        flavor,
        [server],
        zone,
        extra_specs={f'trait:{FAST_CPU}': 'required'},
        image_properties={'hw_architecture': 'aarch64'},
    )
    try:
        scheduler.place(translate.requests(spec, [server]), claim=False)
    except errors.NoValidHost as error:
        asked = (
            f'a server with {flavor} in {zone}, on a CPU with AVX-512, from an image for aarch64'
        )
        return Explained(asked, error.reason, error.steps)
    return None


def one_by_one(scheduler, count=100):
    """Places servers one after the other, then ends their claims. Returns the seconds that each
    took."""
    placed, took_s = [], []
    for server in (str(uuid.uuid4()) for _ in range(count)):
        requests = translate.requests(conductor.spec(SMALL, [server]), [server])
        begin_s = time.perf_counter()
        try:
            scheduler.place(requests, alternates=True)
        except errors.NoValidHost:
            break
        took_s.append(time.perf_counter() - begin_s)
        placed.append(server)
    for server in placed:
        scheduler.call(scheduler.claim_service.abort_claim, server)
    return took_s
