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
"""A running stock cloud, as an operator sees it."""

import contextlib
from collections.abc import Iterator

import requests
from keystoneauth1 import adapter, exceptions, session
from keystoneauth1.identity import v3

from nova_sched.tests.stock_cloud import waiting
from nova_sched.tests.stock_cloud.databases import Databases
from nova_sched.tests.stock_cloud.hosts import Hosts
from nova_sched.tests.stock_cloud.placement import Placement
from nova_sched.tests.stock_cloud.programs import Programs
from nova_sched.tests.stock_cloud.schedulers import Scheduler, Schedulers, Shadow
from nova_sched.tests.stock_cloud.servers import Servers
from nova_sched.tests.stock_cloud.settings import Layout
from nova_sched.tests.stock_cloud.tap import Tap

COMPUTE_API, PLACEMENT_API = '2.91', '1.36'


class Cloud:
    """``tap`` has the calls that the scheduler received. A ``shadow`` is not started.

    ``programs`` are the processes but for the scheduler, a nova-compute by its host's name.
    ``cell_url`` is the transport URL of the cell. ``schedulers`` makes others than ``scheduler``.
    """

    def __init__(
        self,
        layout: Layout,
        identity_url: str,
        cell_url: str,
        programs: Programs,
        databases: Databases,
        schedulers: Schedulers,
        scheduler: Scheduler,
        shadow: Shadow,
        tap: Tap,
    ):
        self.layout, self.programs, self.scheduler, self.tap = layout, programs, scheduler, tap
        self.databases, self.schedulers, self.shadow = databases, schedulers, shadow
        self._cell_url = cell_url
        direct = requests.Session()
        direct.trust_env = False  # the environment may name a proxy
        auth = v3.Password(
            f'{identity_url}/v3',
            username='admin',
            password='secret',
            user_domain_id='default',
            project_name='demo',
            project_domain_id='default',
        )
        self._session = session.Session(auth, direct)
        nova = self._adapter('compute', COMPUTE_API)
        self.servers, self.hosts = Servers(nova), Hosts(nova)
        self.placement = Placement(self._adapter('placement', PLACEMENT_API))

    def has_hosts(self, names: set[str]) -> bool:
        """Whether the APIs answer, and these hosts are up and have providers."""
        try:
            return self.hosts.up() == self.placement.hosts() == names
        except exceptions.ClientException:
            return False

    @contextlib.contextmanager
    def scheduled_by(self, *others: Scheduler) -> Iterator[None]:
        """Let these schedulers run in place of the cloud's for as long as the block runs."""
        self.scheduler.stop()
        try:
            for one in others:
                one.start()
            yield
        finally:
            for one in others:
                one.kill()
            self.scheduler.start()

    def kill_compute(self, host: str) -> None:
        """SIGKILL its nova-compute."""
        self.programs.kill(host)
        waiting.until_left(self._cell_url, f'compute.{host}')

    def start_compute(self, host: str) -> None:
        """Start its nova-compute, and wait until it takes messages: before that it puts servers in
        ERROR that are sent to it."""
        self.programs.start_again(host)
        waiting.until_consumed(self._cell_url, f'compute.{host}')

    def clear(self) -> None:
        """Delete all that was made; then Placement must hold nothing."""
        self.servers.clear()
        waiting.eventually({}, self.placement.allocations)
        self.hosts.clear()

    def _adapter(self, service: str, version: str) -> adapter.Adapter:
        return adapter.Adapter(
            self._session,
            service_type=service,
            interface='public',
            default_microversion=version,
        )
