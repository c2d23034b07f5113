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
"""Our daemon as a process of its own, from an environment where Nova is not."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nova_sched.tests.fixtures import process

HOST = 'scheduler-under-test'
# All that Nova has.
FILTERS = (
    'AggregateImagePropertiesIsolation,AggregateInstanceExtraSpecsFilter,AggregateIoOpsFilter,'
    'AggregateMultiTenancyIsolation,AggregateNumInstancesFilter,AggregateTypeAffinityFilter,AllHostsFilter,'
    'ComputeFilter,ComputeCapabilitiesFilter,DifferentHostFilter,ImagePropertiesFilter,IoOpsFilter,'
    'IsolatedHostsFilter,JsonFilter,MetricsFilter,NumInstancesFilter,SameHostFilter,ServerGroupAffinityFilter,'
    'ServerGroupAntiAffinityFilter,SimpleCIDRAffinityFilter,PciPassthroughFilter,NUMATopologyFilter'
)
ISOLATED_HOST, ISOLATED_IMAGE = 'cmp-isolated', '99999999-9999-4999-8999-999999999999'


@dataclass(frozen=True)
class Daemon:
    """A running nova-sched-scheduler with its log, and its database in a file."""

    python: Path
    database: Path
    log: Path
    process: process.Process

    def said(self) -> str:
        """All that it has logged."""
        return self.log.read_text()


def make(python: Path, home: Path, transport_url: str, answers: Callable[[], bool]) -> Daemon:
    """A daemon on this bus and on SQLite in ``home``; it is not started."""
    settings = home / 'nova_sched.conf'
    database = home / 'claims.sqlite'
    log = home / 'scheduler.log'
    settings.write_text(
        f'[DEFAULT]\nhost = {HOST}\ntransport_url = {transport_url}\n'
        f'[database]\nconnection = sqlite:///{database}\n'
        f'[filter_scheduler]\nenabled_filters = {FILTERS}\n'
        # A build that runs counts as I/O and would outweigh a soft policy.
        'soft_affinity_weight_multiplier = 10\nsoft_anti_affinity_weight_multiplier = 10\n'
        # Some tests have hundreds of builds under way.
        'max_io_ops_per_host = 1000\nmax_instances_per_host = 1000\n'
        f'isolated_hosts = {ISOLATED_HOST}\nisolated_images = {ISOLATED_IMAGE}\n'
        '[metrics]\nweight_setting = cpu.frequency=1.0\n'
    )
    command = [python.with_name('nova-sched-scheduler'), '--config-file', settings]
    return Daemon(python, database, log, process.Process(command, answers=answers, log=log))
