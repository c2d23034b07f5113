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
"""Requests of running servers, as Nova's conductor sends them before a live migration."""

import json

from nova_sched import errors, objects


class StoredSpecs:
    """Reads RequestSpecs from Nova's API database, and what Nova adds to them from its cells.

    ``api`` is a NovaApi, ``cells`` are Cells. The resources and physical networks of ports are in
    neither: Nova's conductor asks Neutron for them.
    """

    def __init__(self, api, cells):
        self._api, self._cells = api, cells

    def spec(self, server):
        """The RequestSpec of a server, limited to its cell. Raises NotFound, StoreUnavailable;
        MalformedObject or IncompatibleObject for one that cannot be read."""
        text = self._api.request_spec(server)
        cell_uuid = next((cell.uuid for cell in self._cells if cell.server(server)), None)
        if text is None or cell_uuid is None:
            raise errors.NotFound(f'Server {server}')
        try:
            spec = objects.from_primitive(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise errors.MalformedObject('RequestSpec', f'it is not JSON: {error}') from error
        if not isinstance(spec, objects.RequestSpec):
            raise errors.MalformedObject('RequestSpec', 'it is another object')
        spec.instance_uuid = server
        spec.num_instances = 1
        spec.instance_group = self._group(server)
        spec.requested_destination = objects.Destination(cell=objects.CellMapping(uuid=cell_uuid))
        # Of the request that built the server, if at all.
        spec.ignore_hosts = spec.force_hosts = spec.force_nodes = spec.retry = None
        return spec

    def _group(self, server):
        """The group as it is now: what is stored with the request is as old as the server."""
        row = self._api.server_group(server)
        if row is None:
            return None
        try:
            rules = json.loads(row.rules or '{}') or {}
        except (ValueError, RecursionError) as error:
            raise errors.MalformedObject(
                'InstanceGroup.rules', f'it is not JSON: {error}'
            ) from error
        if not isinstance(rules, dict):
            raise errors.MalformedObject('InstanceGroup.rules', 'it is not a mapping')
        hosts = {host for cell in self._cells for host in cell.hosts_of(row.members)}
        return objects.InstanceGroup(
            uuid=row.uuid,
            policy=row.policy,
            rules={name: str(value) for name, value in rules.items()},
            members=sorted(row.members),
            hosts=sorted(hosts),
        )
