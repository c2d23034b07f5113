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
"""Two schedulers are killed and paused while servers boot: no policy is broken, nothing is left,
and only calls that were in flight are lost."""

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from nova_sched.tests.stock_cloud.pairs import Pair, broken_policies
from nova_sched.tests.stock_cloud.servers import Flavor
from nova_sched.tests.stock_cloud.services import LASTING

BOOTS, AT_ONCE = 300, 10
KILL_EVERY_S = 5.0
PAUSE_S = 75.0  # longer than rpc_response_timeout, after which a conductor gives up
LOOK_S = 0.5  # between two looks at a server: looks cost nova-api as much as boots


@pytest.fixture(scope='module')
def pair(running):
    if running.layout.has_casts:
        pytest.skip('nova-compute itself checks the policies of groups there')
    made = Pair(running)
    with running.scheduled_by(*made.both):
        yield made


@dataclass
class Disturbances:
    """When schedulers were killed or stood still, in seconds of ``time.monotonic``."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    def hit(self, call) -> bool:
        """Whether the call was in flight at one."""
        end_s = float('inf') if call.end_s is None else call.end_s
        return any(call.begin_s <= end and begin <= end_s for begin, end in self.spans)

    def kill_in_turn(self, schedulers, is_over: threading.Event) -> None:
        """SIGKILL one after the other, and start it again."""
        due_s = time.monotonic()
        for one in itertools.cycle(schedulers):
            due_s = max(due_s + KILL_EVERY_S, time.monotonic())
            if is_over.wait(due_s - time.monotonic()):
                return
            begin_s = time.monotonic()
            one.kill()
            self.spans.append((begin_s, time.monotonic()))
            one.start()

    def pause(self, scheduler, seconds: float) -> None:
        begin_s = time.monotonic()
        scheduler.pause()
        time.sleep(seconds)
        scheduler.resume()
        self.spans.append((begin_s, time.monotonic()))


@pytest.fixture
def flavor(servers, hosts) -> Flavor:
    """Of which there is capacity for all boots, on six hosts."""
    hosts.enable(LASTING)
    made = servers.flavor(ram_mb=64, specs={'resources:VCPU': '0'})
    resources = {name: most for name, most in made.resources.items() if name != 'VCPU'}
    return Flavor(made.name, resources)


def calls_for(servers, boots: int) -> list[tuple[int, str | None]]:
    """Calls that boot so many servers, a multiple of 30: the number of each, and its group.

    Half of the servers are in anti-affinity groups of three or four, a fifth in affinity groups,
    by one call for the group or by several.
    """
    calls = []
    for _ in range(boots // 30):
        apart, also_apart, together = (
            servers.group(policy) for policy in ('anti-affinity', 'anti-affinity', 'affinity')
        )
        calls += [(1, apart)] * 4 + [(2, also_apart), (1, also_apart), (1, also_apart)]
        calls += [(1, servers.group('anti-affinity'))] * 4 + [(3, servers.group('anti-affinity'))]
        calls += [(1, together)] * 3 + [(3, servers.group('affinity'))] + [(1, None)] * 9
    random.Random(1).shuffle(calls)
    return calls


def boot_all(servers, flavor, calls, at_once: int = AT_ONCE):
    """The servers of these calls, with so many calls under way. Every fifth server of no group is
    deleted as soon as it is there."""

    def boot(numbered):
        number, (count, group) = numbered
        name = servers.ask(flavor, count, hints={'group': group} if group else None)
        built = servers.built(name, count, pause_s=LOOK_S)
        if group is None and number % 5 == 0:
            servers.delete(server.uuid for server in built)
        return built

    with ThreadPoolExecutor(at_once) as pool:
        return [server for built in pool.map(boot, enumerate(calls)) for server in built]


def lost(cloud, booted, disturbances):
    """The servers that were not built, of which each call must have been in flight at a
    disturbance."""
    found = [server for server in booted if server.status != 'ACTIVE']
    for server in found:
        calls = [call for call in cloud.tap.calls if _is_about(call, server.uuid)]
        assert any(map(disturbances.hit, calls)), (server, calls)
    return found


def _is_about(call, uuid: str) -> bool:
    return uuid in (call.arguments.get('instance_uuids') or ())


@pytest.mark.timeout(1800)
def test_they_are_killed(cloud, servers, pair, flavor):
    disturbances, is_over = Disturbances(), threading.Event()
    calls = calls_for(servers, BOOTS)
    with ThreadPoolExecutor(1) as killer:
        killing = killer.submit(disturbances.kill_in_turn, pair.both, is_over)
        try:
            booted = boot_all(servers, flavor, calls)
        finally:
            is_over.set()
        killing.result()
    assert len(booted) == BOOTS
    assert broken_policies(cloud) == []
    found = lost(cloud, booted, disturbances)
    begin_s = time.monotonic()
    pair.until_exact(flavor)
    exact_s = time.monotonic() - begin_s
    print(f'{len(disturbances.spans)} kills, {len(found)} lost, exact after {exact_s:.0f} s')
    assert broken_policies(cloud) == []


@pytest.mark.timeout(900)
def test_one_stands_still(cloud, servers, pair, flavor):
    """What it had read before is older than its conductors wait when it goes on."""
    disturbances, calls = Disturbances(), calls_for(servers, 60)
    with ThreadPoolExecutor(1) as pauser:
        booting = pauser.submit(boot_all, servers, flavor, calls)
        for paused in pair.both:
            time.sleep(1.0)
            disturbances.pause(paused, PAUSE_S)
        booted = booting.result()
    found = lost(cloud, booted, disturbances)
    assert broken_policies(cloud) == []
    begin_s = time.monotonic()
    pair.until_exact(flavor)
    exact_s = time.monotonic() - begin_s
    print(f'{len(found)} of {len(booted)} lost, exact after {exact_s:.0f} s')
    assert broken_policies(cloud) == []
