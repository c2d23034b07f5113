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
"""Servers, flavors and server groups, through nova-api."""

import contextlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from keystoneauth1 import adapter, exceptions

from nova_sched.tests.stock_cloud.stubs import FIRST
from nova_sched.tests.stock_cloud.waiting import PAUSE_S, eventually

REFUSAL = 'No valid host was found.'  # how the fault of a server without a host begins
BUSY = frozenset(['BUILD', 'REBUILD', 'RESIZE', 'MIGRATING'])


@dataclass(frozen=True)
class Flavor:
    """``resources`` is what a server of it is allocated, unless its extra specs say otherwise."""

    name: str
    resources: dict[str, int]


@dataclass(frozen=True)
class Server:
    """As nova-api shows it at one moment; ``host`` is None for one that runs nowhere."""

    uuid: str
    name: str
    status: str
    task_state: str | None
    host: str | None
    zone: str
    fault: str

    @property
    def is_busy(self) -> bool:
        return self.status in BUSY or self.task_state is not None


class Servers:
    """What it makes is deleted by ``clear``; names of flavors and servers are unique."""

    def __init__(self, nova: adapter.Adapter):
        self._nova = nova
        self._numbers = itertools.count(1)
        self._flavors: list[str] = []
        self._groups: list[str] = []

    # Flavors and groups

    def flavor(
        self, vcpus: int = 1, ram_mb: int = 512, disk_gb: int = 1, specs: dict | None = None
    ) -> Flavor:
        name = f'flavor-{next(self._numbers)}'
        flavor = {'name': name, 'id': name, 'vcpus': vcpus, 'ram': ram_mb, 'disk': disk_gb}
        self._nova.post('/flavors', json={'flavor': flavor})
        self._flavors.append(name)
        if specs:
            self._nova.post(f'/flavors/{name}/os-extra_specs', json={'extra_specs': specs})
        return Flavor(name, {'VCPU': vcpus, 'MEMORY_MB': ram_mb, 'DISK_GB': disk_gb})

    def group(self, policy: str, **rules: int) -> str:
        """The UUID of a new server group: ``group('anti-affinity', max_server_per_host=2)``."""
        group = {'name': f'group-{next(self._numbers)}', 'policy': policy, 'rules': rules}
        made = self._nova.post('/os-server-groups', json={'server_group': group})
        self._groups.append(made.json()['server_group']['id'])
        return self._groups[-1]

    # Servers

    def ask(
        self,
        flavor: Flavor,
        count: int = 1,
        *,
        hints: dict | None = None,
        zone: str | None = None,
        **words: object,
    ) -> str:
        """Request ``count`` servers in one call, and return their common name. ``words``: other
        fields of the API."""
        name = f'server-{next(self._numbers)}'
        server = {
            'name': name,
            'flavorRef': flavor.name,
            'imageRef': FIRST,
            'networks': 'none',
            'min_count': count,
            'max_count': count,
            **({'availability_zone': zone} if zone else {}),
            **words,
        }
        body = {'server': server, **({'os:scheduler_hints': hints} if hints else {})}
        self._nova.post('/servers', json=body)
        return name

    def built(self, name: str, count: int = 1, pause_s: float = PAUSE_S) -> list[Server]:
        """The servers of this name, once none is being built any more."""
        eventually([False] * count, lambda: [one.is_busy for one in self.named(name)], pause_s)
        return self.named(name)

    def boot(self, flavor: Flavor, count: int = 1, **words: object) -> list[Server]:
        """``ask``, and wait: the servers in ACTIVE or ERROR."""
        return self.built(self.ask(flavor, count, **words), count)

    def named(self, name: str) -> list[Server]:
        # Those of a call for several are named NAME-1, NAME-2 and so on.
        pattern = {'name': f'^{name}(-[0-9]+)?$'}
        found = self._nova.get('/servers/detail', params=pattern).json()['servers']
        return sorted(map(_server, found), key=lambda one: one.name)

    def get(self, uuid: str) -> Server:
        return _server(self._nova.get(f'/servers/{uuid}').json()['server'])

    def act(self, uuid: str, action: str, body: object = None, *, until: str = 'ACTIVE') -> Server:
        """Do what /servers/{uuid}/action calls so, and wait until the server is at rest in a
        status."""
        self._nova.post(f'/servers/{uuid}/action', json={action: body})
        eventually(until, lambda: self._resting(uuid))
        return self.get(uuid)

    def _resting(self, uuid: str) -> str | None:
        server = self.get(uuid)
        return None if server.is_busy else server.status

    def migration(self, uuid: str) -> str:
        """The UUID of this server's newest migration, which holds the allocation of the host that
        the server leaves."""
        found = self._nova.get(f'/os-migrations?instance_uuid={uuid}').json()['migrations']
        return max(found, key=lambda one: one['id'])['uuid']

    def tried(self, uuid: str) -> set[str]:
        """The hosts that this server was built on, also in vain."""
        path = f'/servers/{uuid}/os-instance-actions'
        asked = self._nova.get(path).json()['instanceActions'][-1]['request_id']
        events = self._nova.get(f'{path}/{asked}').json()['instanceAction']['events']
        return {
            one['host'] for one in events if one['event'] == 'compute__do_build_and_run_instance'
        }

    def delete(self, uuids: Iterable[str]) -> None:
        """Delete, and wait until they are gone."""
        uuids = list(uuids)
        for uuid in uuids:
            with contextlib.suppress(exceptions.NotFound):
                self._nova.delete(f'/servers/{uuid}')
        eventually([], lambda: [uuid for uuid in self.all() if uuid in uuids])

    def all(self) -> list[str]:
        found = self._nova.get('/servers?all_tenants=1').json()['servers']
        return [one['id'] for one in found]

    def clear(self) -> None:
        """Delete all servers, and the flavors and groups that were made here."""
        self.delete(self.all())
        for path, made in (('flavors', self._flavors), ('os-server-groups', self._groups)):
            while made:
                self._nova.delete(f'/{path}/{made.pop()}')


def _server(found: dict) -> Server:
    return Server(
        found['id'],
        found['name'],
        found['status'],
        found['OS-EXT-STS:task_state'],
        found['OS-EXT-SRV-ATTR:host'],
        found['OS-EXT-AZ:availability_zone'],
        found.get('fault', {}).get('message', ''),
    )


def allocations(servers: Iterable[Server], flavor: Flavor) -> dict[str, dict[str, dict[str, int]]]:
    """What Placement holds for servers of the flavor that run where they are."""
    return {server.uuid: {server.host: flavor.resources} for server in servers}
