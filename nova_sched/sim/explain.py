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
"""One request that cannot be met, and what each filter made of it."""

import dataclasses

from nova_sched import errors
from nova_sched.rpc import translate
from nova_sched.sim import conductor
from nova_sched.sim.machines import FAST_CPU
from nova_sched.sim.trace import Flavor

SERVER = '00000000-0000-4000-8000-000000000000'


@dataclasses.dataclass(frozen=True, slots=True)
class Explained:
    """``trail`` is the engine's: (rule, hosts that it saw, hosts that it left), in order."""

    asked: str
    reason: str
    trail: tuple


def refusal(scheduler, zone):
    """Ask a running engine for what no simulated node has, in a zone. None if it finds a host after all."""
    flavor = Flavor('impossible', 4, 28 * 1024)
    spec = conductor.spec(
        flavor,
        [SERVER],
        zone,
        extra_specs={f'trait:{FAST_CPU}': 'required'},
        image_properties={'hw_architecture': 'aarch64'},
    )
    try:
        scheduler.place(translate.requests(spec, [SERVER]), claim=False)
    except errors.NoValidHost as error:
        asked = f'a server with {flavor} in {zone}, on a CPU with AVX-512, from an image for aarch64'
        return Explained(asked, error.reason, error.trail)
    return None
