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
"""Compute services and host aggregates, through nova-api."""

import itertools

from keystoneauth1 import adapter, exceptions


class Hosts:
    """``clear`` brings back the services that were changed here, and deletes aggregates."""

    def __init__(self, nova: adapter.Adapter):
        self._nova = nova
        self._numbers = itertools.count(1)
        self._changed: dict[str, dict] = {}
        self._aggregates: dict[int, list[str]] = {}

    def up(self) -> set[str]:
        """The hosts whose nova-compute is up, enabled or not."""
        return {host for host, one in self._services().items() if one['state'] == 'up'}

    def service(self, host: str) -> tuple[str, str | None]:
        """The status of its nova-compute, and why it is disabled."""
        found = self._services()[host]
        return found['status'], found['disabled_reason']

    def enable(self, *hosts: str) -> None:
        self._change(hosts, status='enabled')

    def disable(self, *hosts: str) -> None:
        self._change(hosts, status='disabled')

    def force_down(self, *hosts: str) -> None:
        self._change(hosts, forced_down=True)

    def force_up(self, *hosts: str) -> None:
        self._change(hosts, forced_down=False)

    def may_be_up(self, host: str) -> bool:
        """``force_up``, and whether Nova accepts that."""
        try:
            self.force_up(host)
        except exceptions.BadRequest:
            return False
        return True

    def aggregate(self, *hosts: str, zone: str | None = None, **metadata: str) -> str:
        """The name of a new aggregate with these hosts."""
        name = f'aggregate-{next(self._numbers)}'
        body = {'aggregate': {'name': name, 'availability_zone': zone}}
        made = self._nova.post('/os-aggregates', json=body).json()['aggregate']['id']
        self._aggregates[made] = []
        if metadata:
            self._act(made, 'set_metadata', metadata=metadata)
        for host in hosts:
            self._act(made, 'add_host', host=host)
            self._aggregates[made].append(host)
        return name

    def keep(self) -> None:
        """Let ``clear`` leave the services as they are now."""
        self._changed.clear()

    def clear(self) -> None:
        for made, hosts in list(self._aggregates.items()):
            while hosts:
                self._act(made, 'remove_host', host=hosts.pop())
            self._nova.delete(f'/os-aggregates/{made}')
            del self._aggregates[made]
        services = self._services()
        for host, before in list(self._changed.items()):
            changes = {name: was for name, was in before.items() if services[host][name] != was}
            for name, was in changes.items():
                self._put(services[host], {name: was})
            del self._changed[host]

    def _change(self, hosts: tuple[str, ...], **change: object) -> None:
        services = self._services()
        for host in hosts:
            service = services[host]
            before = {name: service[name] for name in ('status', 'forced_down')}
            self._changed.setdefault(host, before)
            self._put(service, change)

    def _put(self, service: dict, change: dict) -> None:
        self._nova.put(f'/os-services/{service["id"]}', json=change)

    def _services(self) -> dict[str, dict]:
        found = self._nova.get('/os-services?binary=nova-compute').json()['services']
        return {one['host']: one for one in found}

    def _act(self, aggregate: int, action: str, **body: object) -> None:
        self._nova.post(f'/os-aggregates/{aggregate}/action', json={action: body})
