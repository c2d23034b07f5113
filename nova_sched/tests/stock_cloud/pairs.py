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
"""Two schedulers that share a claim store, as those of two machines, and what must hold after any
disturbance."""

from collections import Counter

from nova_sched.tests.stock_cloud.cloud import Cloud
from nova_sched.tests.stock_cloud.schedulers import OURS, Scheduler
from nova_sched.tests.stock_cloud.servers import Flavor
from nova_sched.tests.stock_cloud.waiting import eventually

SERVERS = 'SELECT uuid, host FROM instances WHERE deleted = 0'
MEMBERS = """
    SELECT member.group_id, policy.policy, member.instance_uuid
    FROM instance_group_member member
    JOIN instance_group_policy policy ON policy.group_id = member.group_id
"""
CLAIMS = """
    SELECT claims.consumer_uuid, nodes.host
    FROM claims JOIN nodes ON nodes.uuid = claims.node_uuid
"""


class Pair:
    """``one`` answers by oslo.messaging's server, ``other`` by the direct one. ``options``
    (``{'group': {'name': value}}``) are for both."""

    def __init__(self, cloud: Cloud, options: dict | None = None):
        self._cloud, self._claims = cloud, cloud.databases.of_claims()
        shared = {'claims': {'connection': self._claims}, **(options or {})}
        self.one, self.other = (
            cloud.schedulers.make(OURS, host, {**shared, 'scheduler': {'rpc_server': server}})
            for host, server in (('sched1', 'oslo'), ('sched2', 'direct'))
        )
        self.one.manage('db', 'upgrade')

    @property
    def both(self) -> tuple[Scheduler, Scheduler]:
        return self.one, self.other

    def until_exact(self, flavor: Flavor) -> None:
        """Wait, for two minutes at most, until the allocations and the claims are those of Nova's
        servers, each of this flavor."""
        hosts = {uuid: host for uuid, host in self._cloud.databases.rows('cell1', SERVERS) if host}
        allocated = {uuid: {host: flavor.resources} for uuid, host in hosts.items()}
        eventually({}, lambda: _differing(allocated, self._cloud.placement.allocations()), 1.0)
        eventually({}, lambda: _differing(hosts, self._claimed()), 1.0)

    def _claimed(self) -> dict[str, str]:
        rows = self._cloud.databases.rows(self._claims, CLAIMS)
        assert len({consumer for consumer, _ in rows}) == len(rows), rows
        return dict(rows)


def _differing(wanted: dict, found: dict) -> dict:
    """What is wanted and what is found, by the keys of which that differs."""
    keys = wanted.keys() | found.keys()
    return {
        key: (wanted.get(key), found.get(key)) for key in keys if wanted.get(key) != found.get(key)
    }


def broken_policies(cloud: Cloud) -> list[tuple[int, str, list[str]]]:
    """The server groups whose hard policy does not hold, by Nova's own database: each with its
    policy and the hosts of its members."""
    hosts, groups = dict(cloud.databases.rows('cell1', SERVERS)), {}
    for group, policy, uuid in cloud.databases.rows('api', MEMBERS):
        if hosts.get(uuid):
            groups.setdefault((group, policy), []).append(hosts[uuid])
    most = {'anti-affinity': lambda found: max(Counter(found).values()), 'affinity': _distinct}
    return [
        (group, policy, found)
        for (group, policy), found in groups.items()
        if policy in most and most[policy](found) > 1
    ]


def _distinct(hosts: list[str]) -> int:
    return len({*hosts})
