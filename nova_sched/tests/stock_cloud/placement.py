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
"""What Placement holds, by the names of the resource providers."""

import contextlib
import uuid
from collections.abc import Iterable, Iterator

from keystoneauth1 import adapter

Allocations = dict[str, dict[str, int]]  # provider's name -> resource class -> amount


class Placement:
    """A host's provider has the host's name, its child ``child`` of that."""

    def __init__(self, placement: adapter.Adapter):
        self._placement = placement

    def hosts(self) -> set[str]:
        """The names of the root providers."""
        return {one['name'] for one in self._providers() if not one['parent_provider_uuid']}

    def allocations(self) -> dict[str, Allocations]:
        """All that is allocated, by consumer: an instance or a migration."""
        found: dict[str, Allocations] = {}
        for provider in self._providers():
            path = f'/resource_providers/{provider["uuid"]}/allocations'
            for consumer, one in self._placement.get(path).json()['allocations'].items():
                found.setdefault(consumer, {})[provider['name']] = one['resources']
        return found

    def uuid(self, name: str) -> str:
        """Of the provider with this name."""
        return next(one['uuid'] for one in self._providers() if one['name'] == name)

    def allocate(self, consumer: str, provider: str, resources: dict[str, int]) -> None:
        """Allocate for a new consumer, in one request; ``provider`` is its UUID."""
        body = {
            'allocations': {provider: {'resources': resources}},
            'project_id': consumer,
            'user_id': consumer,
            'consumer_generation': None,
        }
        self._placement.put(f'/allocations/{consumer}', json=body)

    def release(self, consumer: str) -> None:
        self._placement.delete(f'/allocations/{consumer}')

    def add_trait(self, host: str, trait: str) -> None:
        """Give the host's provider a custom trait; nova-compute leaves such traits alone."""
        self._placement.put(f'/traits/{trait}')
        path = f'/resource_providers/{self.uuid(host)}/traits'
        now = self._placement.get(path).json()
        self._placement.put(path, json={**now, 'traits': sorted({*now['traits'], trait})})

    @contextlib.contextmanager
    def sharing(self, name: str, hosts: Iterable[str], **amounts: int) -> Iterator[str]:
        """A provider that shares with these hosts as long as the block runs; yields its name. No
        server may have a part of it at the end."""
        aggregate = str(uuid.uuid4())
        made = str(uuid.uuid4())
        for resource_class in amounts:
            self._placement.put(f'/resource_classes/{resource_class}')
        self._placement.post('/resource_providers', json={'uuid': made, 'name': name})
        inventories = {one: {'total': total} for one, total in amounts.items()}
        self._change(made, 'inventories', {'inventories': inventories})
        self._change(made, 'traits', {'traits': ['MISC_SHARES_VIA_AGGREGATE']})
        members = [made, *map(self.uuid, hosts)]
        for one in members:
            self._change(one, 'aggregates', {'aggregates': [aggregate]})
        yield name
        for one in members[1:]:
            self._change(one, 'aggregates', {'aggregates': []})
        self._placement.delete(f'/resource_providers/{made}')

    def _change(self, provider: str, what: str, body: dict) -> None:
        path = f'/resource_providers/{provider}'
        now = self._placement.get(path).json()['generation']
        known = {'resource_provider_generation': now, **body}
        self._placement.put(f'{path}/{what}', json=known)

    def _providers(self) -> list[dict]:
        return self._placement.get('/resource_providers').json()['resource_providers']


def child(host: str) -> str:
    """The name that Nova's fake driver gives a host's child provider."""
    return f'{host}-child'
