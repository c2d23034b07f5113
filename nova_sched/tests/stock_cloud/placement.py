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

from keystoneauth1 import adapter

Allocations = dict[str, dict[str, int]]  # provider's name -> resource class -> amount


class Placement:
    """A host's provider has the host's name. ``clear`` deletes the providers made here."""

    def __init__(self, placement: adapter.Adapter):
        self._placement = placement
        self._made: list[str] = []

    def hosts(self) -> set[str]:
        """The names of the root providers."""
        return {one['name'] for one in self._providers() if one['parent_provider_uuid'] is None}

    def allocations(self) -> dict[str, Allocations]:
        """All that is allocated, by consumer: an instance or a migration."""
        found: dict[str, Allocations] = {}
        for provider in self._providers():
            path = f'/resource_providers/{provider["uuid"]}/allocations'
            for consumer, one in self._placement.get(path).json()['allocations'].items():
                found.setdefault(consumer, {})[provider['name']] = one['resources']
        return found

    def add_child(self, host: str, resource: str, total: int) -> str:
        """The name of a new provider below the host's, with an inventory of one custom class."""
        name = f'{host}_{resource.lower()}'
        self._placement.put(f'/resource_classes/{resource}')
        body = {'name': name, 'parent_provider_uuid': self._uuid(host)}
        made = self._placement.post('/resource_providers', json=body).json()['uuid']
        self._made.append(made)
        self._placement.put(
            f'/resource_providers/{made}/inventories',
            json={'resource_provider_generation': 0, 'inventories': {resource: {'total': total}}},
        )
        return name

    def set_trait(self, host: str, trait: str) -> None:
        """Add a custom trait to the host's provider; nova-compute leaves such traits alone."""
        self._placement.put(f'/traits/{trait}')
        path = f'/resource_providers/{self._uuid(host)}/traits'
        now = self._placement.get(path).json()
        self._placement.put(path, json={**now, 'traits': [*now['traits'], trait]})

    def clear(self) -> None:
        while self._made:
            self._placement.delete(f'/resource_providers/{self._made.pop()}')

    def _uuid(self, host: str) -> str:
        return next(one['uuid'] for one in self._providers() if one['name'] == host)

    def _providers(self) -> list[dict]:
        return self._placement.get('/resource_providers').json()['resource_providers']
