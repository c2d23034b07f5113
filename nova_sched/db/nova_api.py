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
"""Reads Nova's API database: cells, the cells of hosts, aggregates, and servers to be built."""

import dataclasses
from collections.abc import Mapping

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db.transactions import first_line, transaction

CELLS = sa.table(
    'cell_mappings',
    sa.column('id'),
    sa.column('uuid'),
    sa.column('name'),
    sa.column('transport_url'),
    sa.column('database_connection'),
    sa.column('disabled', sa.Boolean()),
)
HOSTS = sa.table('host_mappings', sa.column('host'), sa.column('cell_id'))
AGGREGATES = sa.table('aggregates', sa.column('id'), sa.column('uuid'), sa.column('name'))
AGGREGATE_HOSTS = sa.table('aggregate_hosts', sa.column('aggregate_id'), sa.column('host'))
AGGREGATE_METADATA = sa.table(
    'aggregate_metadata', sa.column('aggregate_id'), sa.column('key'), sa.column('value')
)
FLAVORS = sa.table(
    'flavors',
    sa.column('id'),
    sa.column('name'),
    sa.column('vcpus'),
    sa.column('memory_mb'),
    sa.column('root_gb'),
    sa.column('ephemeral_gb'),
    sa.column('swap'),
)
FLAVOR_EXTRA_SPECS = sa.table(
    'flavor_extra_specs', sa.column('flavor_id'), sa.column('key'), sa.column('value')
)
BUILD_REQUESTS = sa.table('build_requests', sa.column('instance_uuid'))
REQUEST_SPECS = sa.table('request_specs', sa.column('instance_uuid'), sa.column('spec'))
GROUPS = sa.table('instance_groups', sa.column('id'), sa.column('uuid'))
GROUP_MEMBERS = sa.table(
    'instance_group_member', sa.column('group_id'), sa.column('instance_uuid')
)
GROUP_POLICIES = sa.table(
    'instance_group_policy', sa.column('group_id'), sa.column('policy'), sa.column('rules')
)

ALL_CELLS = sa.select(CELLS).order_by(CELLS.c.id)
CELL_OF_HOST = sa.select(HOSTS.c.host, CELLS.c.uuid).join(CELLS, CELLS.c.id == HOSTS.c.cell_id)
IS_BEING_BUILT = sa.select(BUILD_REQUESTS).where(
    BUILD_REQUESTS.c.instance_uuid == sa.bindparam('uuid')
)

SPEC_OF = sa.select(REQUEST_SPECS.c.spec).where(
    REQUEST_SPECS.c.instance_uuid == sa.bindparam('uuid')
)
GROUP_OF = (
    sa.select(GROUPS.c.id, GROUPS.c.uuid, GROUP_POLICIES.c.policy, GROUP_POLICIES.c.rules)
    .select_from(
        GROUPS.join(GROUP_MEMBERS, GROUP_MEMBERS.c.group_id == GROUPS.c.id).outerjoin(
            GROUP_POLICIES, GROUP_POLICIES.c.group_id == GROUPS.c.id
        )
    )
    .where(GROUP_MEMBERS.c.instance_uuid == sa.bindparam('uuid'))
)
MEMBERS_OF = sa.select(GROUP_MEMBERS.c.instance_uuid).where(
    GROUP_MEMBERS.c.group_id == sa.bindparam('group_id')
)


@dataclasses.dataclass(frozen=True, slots=True)
class CellMappingRow:
    """One cell. The URLs have passwords, so they are not printed; both may be templates."""

    uuid: str
    name: str | None
    transport_url: str | None = dataclasses.field(repr=False)
    database_connection: str | None = dataclasses.field(repr=False)
    disabled: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateRow:
    """One host aggregate, with the fields of ``state.aggregates.HostAggregate``."""

    id: int
    name: str
    hosts: frozenset[str]
    metadata: Mapping[str, str]
    uuid: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class ServerGroupRow:
    """A server group; ``rules`` is a JSON text or None, ``members`` are UUIDs of servers."""

    uuid: str
    policy: str | None
    rules: str | None
    members: frozenset[str]


class NovaApi:
    """Nova's API database; ``engine`` is a reader of it.

    Each method is one short transaction, and raises StoreUnavailable if the database does not
    answer. Any thread may call it.
    """

    def __init__(self, engine):
        self._engine = engine

    def cell_mappings(self):
        """The CellMappingRows of all cells, also of those that are disabled, in the order of
        their ids."""
        with transaction(self._engine) as connection:
            rows = connection.execute(ALL_CELLS).all()
        return [
            CellMappingRow(
                row.uuid,
                row.name,
                row.transport_url,
                row.database_connection,
                bool(row.disabled),
            )
            for row in rows
        ]

    def host_mappings(self):
        """host -> UUID of its cell."""
        with transaction(self._engine) as connection:
            return {row.host: row.uuid for row in connection.execute(CELL_OF_HOST)}

    def aggregates(self):
        """The AggregateRows of all host aggregates, by id."""
        hosts, metadata = {}, {}
        with transaction(self._engine) as connection:
            aggregates = connection.execute(sa.select(AGGREGATES)).all()
            for row in connection.execute(sa.select(AGGREGATE_HOSTS)):
                if row.host is not None:
                    hosts.setdefault(row.aggregate_id, set()).add(row.host)
            for row in connection.execute(sa.select(AGGREGATE_METADATA)):
                if row.key is not None and row.value is not None:
                    metadata.setdefault(row.aggregate_id, {})[row.key] = row.value
        return [
            AggregateRow(
                row.id,
                row.name or '',
                frozenset(hosts.get(row.id, ())),
                metadata.get(row.id, {}),
                row.uuid,
            )
            for row in sorted(aggregates, key=lambda row: row.id)
        ]

    def flavors(self):
        """The flavors by name: rows as ``extensions.queues.catalogue.flavor_of`` reads them.

        Raises BadConfig too, if the account may not read them.
        """
        specs = {}
        try:
            with transaction(self._engine) as connection:
                flavors = connection.execute(sa.select(FLAVORS)).mappings().all()
                for row in connection.execute(sa.select(FLAVOR_EXTRA_SPECS)):
                    specs.setdefault(row.flavor_id, {})[row.key] = row.value
        except (db_error.DBError, sa.exc.DBAPIError) as error:
            where = f'database {self._engine.url.database}'
            raise errors.BadConfig(where, first_line(error)) from error
        rows = [
            {**{name: row[name] for name in row if name != 'id'},
             'extra_specs': specs.get(row['id'], {})}
            for row in flavors
        ]  # fmt: skip
        return sorted(rows, key=lambda row: row['name'])

    def has_build_request(self, instance_uuid):
        """Whether Nova has accepted this server, and has not made its instance yet."""
        with transaction(self._engine) as connection:
            return connection.execute(IS_BEING_BUILT, {'uuid': instance_uuid}).first() is not None

    def request_spec(self, instance_uuid):
        """The stored RequestSpec of a server, as JSON text; None: there is none."""
        with transaction(self._engine) as connection:
            return connection.execute(SPEC_OF, {'uuid': instance_uuid}).scalar()

    def server_group(self, instance_uuid):
        """The ServerGroupRow of the group that a server is a member of, or None."""
        with transaction(self._engine) as connection:
            row = connection.execute(GROUP_OF, {'uuid': instance_uuid}).first()
            if row is None:
                return None
            members = connection.execute(MEMBERS_OF, {'group_id': row.id})
            return ServerGroupRow(row.uuid, row.policy, row.rules, frozenset(members.scalars()))
