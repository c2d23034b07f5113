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
"""An operator goes from nova-scheduler to ours and back, while the servers run on."""

import pytest

from nova_sched.tests.stock_cloud.pairs import broken_policies
from nova_sched.tests.stock_cloud.schedulers import OURS, REFERENCE
from nova_sched.tests.stock_cloud.waiting import eventually

HOST = 'walk'  # of both schedulers: they have one nova.conf


class Walk:
    """The servers that were booted on the way, with the hosts where they must be."""

    def __init__(self, cloud):
        self._cloud, self._servers = cloud, cloud.servers
        self._flavor = cloud.servers.flavor()
        self._group = {'group': cloud.servers.group('anti-affinity')}
        self._hosts: dict[str, str] = {}

    def boot(self, *names: str) -> None:
        """Boot one server, a member of the group and two in one call, and wait for those that
        were asked for before."""
        calls = [(name, 1) for name in names]
        calls += [(self.ask(), 1), (self.ask(hints=self._group), 1), (self.ask(2), 2)]
        for name, count in calls:
            for server in self._servers.built(name, count):
                assert server.status == 'ACTIVE', server
                self._hosts[server.uuid] = server.host
        self.check()

    def ask(self, count: int = 1, **words) -> str:
        return self._servers.ask(self._flavor, count, **words)

    def move(self) -> None:
        """Migrate the oldest server."""
        uuid = next(iter(self._hosts))
        before = self._hosts[uuid]
        self._servers.act(uuid, 'migrate', until='VERIFY_RESIZE')
        self._hosts[uuid] = self._servers.act(uuid, 'confirmResize').host
        assert self._hosts[uuid] != before
        self.check()

    def check(self) -> None:
        """All servers run where they were put, and just they have allocations."""
        found = [self._servers.get(uuid) for uuid in self._hosts]
        assert {server.status for server in found} == {'ACTIVE'}
        assert {server.uuid: server.host for server in found} == self._hosts
        eventually(
            {uuid: {host: self._flavor.resources} for uuid, host in self._hosts.items()},
            self._cloud.placement.allocations,
        )
        assert broken_policies(self._cloud) == []


@pytest.mark.timeout(600)
def test_there_and_back(cloud):
    theirs, ours = (cloud.schedulers.make(kind, HOST) for kind in (REFERENCE, OURS))
    with cloud.scheduled_by(theirs):
        walk = Walk(cloud)
        walk.boot()

        ours.manage('config', 'check')
        cloud.shadow.start()
        before = len(cloud.shadow.lines())
        walk.boot()
        eventually(3, lambda: len(cloud.shadow.lines()) - before)
        assert cloud.shadow.report()['missed'] == {}
        cloud.shadow.stop()

        theirs.stop()
        name = walk.ask()
        ours.start()
        walk.boot(name)
        walk.move()

        ours.stop()
        name = walk.ask()
        theirs.start()
        walk.boot(name)
        walk.move()
