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
"""Placement or the database of a cell does not answer for a while: this and its end are logged
once, and nothing has to be restarted."""

import contextlib
import re
import time

import pytest
import sqlalchemy as sa

from nova_sched.tests.fixtures.proxy import Proxy
from nova_sched.tests.stock_cloud.databases import SCHEDULER
from nova_sched.tests.stock_cloud.schedulers import OURS
from nova_sched.tests.stock_cloud.servers import allocations
from nova_sched.tests.stock_cloud.services import DRIVERS
from nova_sched.tests.stock_cloud.waiting import eventually

PLACEMENT_S, CELL_S = 30.0, 60.0
SOON_S = 1.0
AWAY, BACK = 'Cell .* cannot be read: ', 'Cell .* can be read again'


class Log:
    """What a scheduler logs from now on."""

    def __init__(self, scheduler):
        self._path = scheduler.log
        self._begin = len(self._path.read_bytes())

    def lines(self, pattern: str) -> list[str]:
        new = self._path.read_bytes()[self._begin :].decode(errors='replace')
        return [line for line in new.splitlines() if re.search(pattern, line)]

    def counts(self, *patterns: str) -> list[int]:
        return [len(self.lines(pattern)) for pattern in patterns]


@pytest.fixture(autouse=True)
def _is_ours(cloud):
    if cloud.scheduler.kind != OURS:
        pytest.skip('nova-scheduler refuses all calls meanwhile')


def statuses(servers, names):
    return [server.status for name in names for server in servers.built(name)]


def test_placement_is_away(cloud, servers, placement):
    """Calls wait for it as long as their conductors do."""
    flavor, log = servers.flavor(), Log(cloud.scheduler)
    before = servers.boot(flavor)
    cloud.programs.kill('placement')
    time.sleep(SOON_S)
    names = [servers.ask(flavor) for _ in range(5)]
    time.sleep(PLACEMENT_S)
    cloud.programs.start_again('placement')
    cloud.programs.until('Placement back', lambda: cloud.has_hosts({*DRIVERS}))
    assert statuses(servers, names) == ['ACTIVE'] * 5
    eventually([1, 1], lambda: log.counts('while their callers wait', 'Placement answers again'))
    after = servers.boot(flavor, 3)
    assert {server.status for server in after} == {'ACTIVE'}
    booted = before + after + [server for name in names for server in servers.named(name)]
    assert placement.allocations() == allocations(booted, flavor)
    eventually([], lambda: open_problems(log))


def open_problems(log):
    """Lines about what cannot be read, of which no line says that it can be read again."""
    begun, ended = (
        sorted(line.partition(text)[0].split('] ')[-1] for line in log.lines(text))
        for text in (' cannot be read: ', ' can be read again')
    )
    return begun if begun != ended else []


@contextlib.contextmanager
def proxied(cloud):
    """A scheduler of ours that reads the cells through a proxy: the scheduler and its proxy."""
    if not cloud.layout.has_templates:
        pytest.skip('the mapping of the cell has an address that all services use')
    name = 'cell0' if cloud.layout.is_split else 'cell1'
    url = sa.make_url(cloud.databases.url(name, SCHEDULER))
    with Proxy(url.port) as proxy:
        connection = url.set(port=proxy.port).render_as_string(hide_password=False)
        scheduler = cloud.schedulers.make(OURS, 'far', {'database': {'connection': connection}})
        with cloud.scheduled_by(scheduler):
            yield scheduler, proxy


@pytest.mark.parametrize('way', ['cut', 'blackhole'])
def test_a_cell_is_away(cloud, servers, placement, way):
    """Its hosts are judged by the last look, until that is older than service_down_time."""
    flavor = servers.flavor()
    with proxied(cloud) as (scheduler, proxy):
        booted, log = servers.boot(flavor), Log(scheduler)
        getattr(proxy, way)()
        end_s = time.monotonic() + CELL_S
        booted += servers.boot(flavor)
        eventually(1, lambda: len(log.lines(AWAY)))
        time.sleep(max(0.0, end_s - time.monotonic()))
        proxy.restore()
        eventually([1, 1], lambda: log.counts(AWAY, BACK))
        booted += servers.boot(flavor, 3)
        eventually([], lambda: open_problems(log))
    assert {server.status for server in booted} == {'ACTIVE'}
    assert placement.allocations() == allocations(booted, flavor)
