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
"""All tables of the database; times are seconds since the epoch, nested data is JSON text."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

METADATA = sa.MetaData(
    naming_convention={
        'ix': 'ix_%(table_name)s_%(column_0_name)s',
        'uq': 'uq_%(table_name)s_%(column_0_name)s',
    }
)

UUID = sa.String(36)
NAME = sa.String(255)
SECONDS = sa.Double()
JSON_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')

# Names are compared exactly on every database, including their case.
MYSQL = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def _table(name, *columns):
    return sa.Table(name, METADATA, *columns, **MYSQL)


# One compute node. `generation` rises by one in every transaction that changes the node or its
# claims; `pieces_at` is the one at which CPUs, pages or devices on it were last taken or reported.
# `used` is the sum of its claims and of its `unclaimed` rows, by resource class; claims are
# validated against it. Those rows are amounts by resource class, by consumer; the consumer of what
# is not known by consumer is empty. `foreign_instances` is the number of unclaimed instances.
# `fences` are the tokens of the exclusive domains that the node is in; null: none. `told` is the
# node's own report of its failure domains, by level; null: it has not reported to a release that
# stores it. `made_at` is the generation at which the row was made, and `reported_at` the one
# after the last report, which was applied at `seen_s`. That report was number `sequence` of its
# sender's start number `boot`; null: the sender does not report it.
NODES = _table(
    'nodes',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('host', NAME, nullable=False),
    sa.Column('nodename', NAME, nullable=False),
    sa.Column('generation', sa.BigInteger, nullable=False),
    sa.Column('pieces_at', sa.BigInteger, nullable=False, server_default='0'),
    sa.Column('made_at', sa.BigInteger, nullable=False, server_default='0'),
    sa.Column('reported_at', sa.BigInteger, nullable=False, server_default='0'),
    sa.Column('seen_s', SECONDS, nullable=False),
    sa.Column('boot', sa.BigInteger),
    sa.Column('sequence', sa.BigInteger),
    sa.Column('inventories', JSON_TEXT, nullable=False),
    sa.Column('used', JSON_TEXT, nullable=False),
    sa.Column('unclaimed', JSON_TEXT, nullable=False),
    sa.Column('foreign_instances', sa.Integer, nullable=False),
    sa.Column('fences', JSON_TEXT),
    sa.Column('told', JSON_TEXT),
    sa.UniqueConstraint('host', 'nodename'),
)

# The data that a node reported last. Separate from the node, so that a claim rewrites a short row.
REPORTS = _table(
    'reports',
    sa.Column('node_uuid', UUID, primary_key=True),
    sa.Column('report', JSON_TEXT, nullable=False),
)

# The claim of one consumer on one node. `parts` are its CPUs, pages and devices; `counted`: the
# node's report has them in use. `changed_s` is when the row was last written: it decides about
# expiry, and orders nothing. `changed_at` is the generation that its node got then: a report that
# was made before does not end it. `number` orders the claims of its consumer: a new one has a
# higher number than the others. `move` is the kind of move that brings the consumer here from
# another node; `resizing` has both sizes of a claim that is resized in place. `unconfirmed` is the
# consumer again while the claim is not confirmed, and null after that. It is unique, so no
# consumer ever has unconfirmed claims on two nodes. For a member of a group: the group's UUID, the
# member's path in it, and the tokens of the exclusive domains that it is in. `ends_s` is when the
# consumer is expected to end; null: not known. `life` is unused: releases that learned ends kept
# there what they learned from.
CLAIMS = _table(
    'claims',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('consumer_uuid', UUID, nullable=False),
    sa.Column('node_uuid', UUID, nullable=False, index=True),
    sa.Column('state', sa.String(16), nullable=False),
    sa.Column('unconfirmed', UUID),
    sa.Column('resources', JSON_TEXT, nullable=False),
    sa.Column('project_id', NAME),
    sa.Column('user_id', NAME),
    sa.Column('group_uuid', UUID, index=True),
    sa.Column('request_id', NAME),
    sa.Column('created_s', SECONDS, nullable=False),
    sa.Column('changed_s', SECONDS, nullable=False, server_default='0'),
    sa.Column('changed_at', sa.BigInteger, nullable=False, server_default='0'),
    sa.Column('number', sa.BigInteger, nullable=False, server_default='0'),
    sa.Column('expires_s', SECONDS, index=True),
    sa.Column('image_properties', JSON_TEXT),
    sa.Column('parts', JSON_TEXT),
    sa.Column('counted', sa.Boolean(create_constraint=False)),
    sa.Column('move', sa.String(16)),
    sa.Column('resizing', JSON_TEXT),
    sa.Column('top_group', UUID),
    sa.Column('member', JSON_TEXT),
    sa.Column('fences', JSON_TEXT),
    sa.Column('ends_s', SECONDS),
    sa.Column('life', JSON_TEXT),
    sa.UniqueConstraint('consumer_uuid', 'node_uuid'),
    sa.UniqueConstraint('unconfirmed'),
)

# Most claims belong to no placement group: where an index can, it leaves them out.
_IS_MEMBER = CLAIMS.c.top_group.is_not(None)
sa.Index(None, CLAIMS.c.top_group, postgresql_where=_IS_MEMBER, sqlite_where=_IS_MEMBER)

# A server group with a hard policy. A transaction that places a member locks this row and raises
# its `generation`.
SERVER_GROUPS = _table(
    'server_groups',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('policy', sa.String(32), nullable=False),
    sa.Column('most', sa.Integer, nullable=False),
    sa.Column('generation', sa.BigInteger, nullable=False),
)

# A group: its owner, and its definition as text. A transaction that changes the group locks
# this row and raises its `serial`; `generation` is that of the definition, and `members` is the
# number of members in it. `deleted`: members still have claims.
TOP_GROUPS = _table(
    'top_groups',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('project_id', NAME, index=True),
    sa.Column('user_id', NAME),
    sa.Column('name', NAME),
    sa.Column('generation', sa.BigInteger, nullable=False),
    sa.Column('serial', sa.BigInteger, nullable=False),
    sa.Column('definition', JSON_TEXT),
    sa.Column('created_s', SECONDS, nullable=False, index=True),
    sa.Column('updated_s', SECONDS, nullable=False),
    sa.Column('expires_s', SECONDS),
    sa.Column('deleted', sa.Boolean(create_constraint=False), nullable=False),
    sa.Column('members', sa.Integer, nullable=False, server_default='0'),
)

# A failure domain that is exclusive to a group: the nodes in it carry the token, and no other
# node does, unless a claim there has it. A transaction that changes this table, or tokens, locks
# the revision of `domains`.
EXCLUSIVE_DOMAINS = _table(
    'exclusive_domains',
    sa.Column('token', UUID, primary_key=True),
    sa.Column('level', NAME, nullable=False),
    sa.Column('name', JSON_TEXT, nullable=False),
    sa.Column('top_group', UUID, nullable=False),
)

# An operator's settings of a host's compute service.
SERVICES = _table(
    'services',
    sa.Column('host', NAME, primary_key=True),
    sa.Column('disabled', sa.Boolean(create_constraint=False), nullable=False),
    sa.Column('disabled_reason', sa.Text),
    sa.Column('forced_down', sa.Boolean(create_constraint=False), nullable=False),
    sa.Column('seen_s', SECONDS, nullable=False),
)

AGGREGATES = _table(
    'aggregates',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('uuid', UUID),
    sa.Column('name', NAME, nullable=False),
    sa.Column('hosts', JSON_TEXT, nullable=False),
    sa.Column('details', JSON_TEXT, nullable=False),
)

# Instances on a host, as reported by its messages.
HOST_INSTANCES = _table(
    'host_instances',
    sa.Column('host', NAME, primary_key=True),
    sa.Column('instances', JSON_TEXT, nullable=False),
)

# Hosts that were offered for an instance, each to be claimed by its UUID. The offer is for the
# request that `candidate_requests` stores once for all of them.
CANDIDATES = _table(
    'candidates',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('request_uuid', UUID, nullable=False, index=True),
    sa.Column('instance_uuid', UUID, nullable=False),
    sa.Column('node_uuid', UUID, nullable=False),
    sa.Column('host', NAME, nullable=False),
    sa.Column('nodename', NAME, nullable=False),
    sa.Column('place', sa.Integer, nullable=False),
)
CANDIDATE_REQUESTS = _table(
    'candidate_requests',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('expires_s', SECONDS, nullable=False, index=True),
    sa.Column('spec', JSON_TEXT, nullable=False),
)

# Scheduler processes, each with its last heartbeat and its metrics.
SCHEDULERS = _table(
    'schedulers',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('host', NAME, nullable=False),
    sa.Column('pid', sa.Integer, nullable=False),
    sa.Column('started_s', SECONDS, nullable=False),
    sa.Column('seen_s', SECONDS, nullable=False),
    sa.Column('figures', JSON_TEXT, nullable=False),
)

# How often each size was requested, as each scheduler has counted. `serial` is that of the last
# batch of requests that was added, `written_s` the time of that.
MIXES = _table(
    'mixes',
    sa.Column('scheduler', UUID, primary_key=True),
    sa.Column('serial', sa.BigInteger, nullable=False),
    sa.Column('written_s', SECONDS, nullable=False),
    sa.Column('counts', JSON_TEXT, nullable=False),
)

# Unused: releases that learned ends kept here how long servers lasted.
LIFETIMES = _table(
    'lifetimes',
    sa.Column('scheduler', UUID, primary_key=True),
    sa.Column('serial', sa.BigInteger, nullable=False),
    sa.Column('written_s', SECONDS, nullable=False),
    sa.Column('counts', JSON_TEXT, nullable=False),
)

# The results of requests, which `explain` reads.
TRAILS = _table(
    'trails',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('request_id', NAME, nullable=False, index=True),
    sa.Column('time_s', SECONDS, nullable=False, index=True),
    sa.Column('placed_s', SECONDS),
    sa.Column('trail', JSON_TEXT, nullable=False),
    sa.Index('ix_trails_placed_s', 'placed_s', 'time_s'),
)

# Sessions of the dashboard that callers have ended, until their cookies have expired.
ENDED_SESSIONS = _table(
    'ended_sessions',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('until_s', SECONDS, nullable=False),
)

# Flavors, each of which is a queue. `name` is the name that queues are named after.
FLAVORS = _table(
    'flavors',
    sa.Column('name', NAME, primary_key=True),
    sa.Column('flavorid', NAME, nullable=False),
    sa.Column('vcpus', sa.BigInteger, nullable=False),
    sa.Column('memory_mb', sa.BigInteger, nullable=False),
    sa.Column('root_gb', sa.BigInteger, nullable=False),
    sa.Column('ephemeral_gb', sa.BigInteger, nullable=False),
    sa.Column('swap', sa.BigInteger, nullable=False),
    sa.Column('extra_specs', JSON_TEXT, nullable=False),
    sa.Column('created_s', SECONDS, nullable=False),
    sa.UniqueConstraint('flavorid'),
)

# Jobs for compute nodes: the operation and its result. `message` is the job as it was sent.
JOBS = _table(
    'jobs',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('kind', sa.String(16), nullable=False),
    sa.Column('instance_uuid', UUID, nullable=False, index=True),
    sa.Column('project_id', NAME),
    sa.Column('user_id', NAME),
    sa.Column('request_id', NAME),
    sa.Column('queue', NAME),
    sa.Column('host', NAME),
    sa.Column('state', sa.String(16), nullable=False),
    sa.Column('tries', sa.Integer, nullable=False),
    sa.Column('why', sa.Text),
    sa.Column('message', JSON_TEXT, nullable=False),
    sa.Column('created_s', SECONDS, nullable=False, index=True),
    sa.Column('updated_s', SECONDS, nullable=False),
    sa.Column('failures', JSON_TEXT),
)
sa.Index(None, JOBS.c.state, JOBS.c.updated_s)

# The limit of a project for one resource, if it differs from the configuration; -1 is unlimited.
QUOTA_LIMITS = _table(
    'quota_limits',
    sa.Column('project_id', NAME, primary_key=True),
    sa.Column('resource', NAME, primary_key=True),
    sa.Column('most', sa.BigInteger, nullable=False),
)

# The usage of a project: the sum of the amounts of its holds, by resource. A transaction that
# changes a hold locks this row, and so does one that adds to a group of a project whose plans are
# limited; `plans` rises with each of these.
QUOTA_USAGE = _table(
    'quota_usage',
    sa.Column('project_id', NAME, primary_key=True),
    sa.Column('used', JSON_TEXT, nullable=False),
    sa.Column('plans', sa.BigInteger, nullable=False, server_default='0'),
)

# The quota of its project that one instance takes, from before its job is sent until the instance
# is gone.
QUOTA_HOLDS = _table(
    'quota_holds',
    sa.Column('instance_uuid', UUID, primary_key=True),
    sa.Column('project_id', NAME, nullable=False),
    sa.Column('amounts', JSON_TEXT, nullable=False),
)

# Moves of servers that belong together. `periodic`: a scheduler has planned it, and no operator.
# `stopped_s`: since then none of its moves starts.
REBALANCES = _table(
    'rebalances',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('goal', NAME),
    sa.Column('periodic', sa.Boolean(create_constraint=False), nullable=False),
    sa.Column('created_s', SECONDS, nullable=False),
    sa.Column('stopped_s', SECONDS),
)

# One move. `since_s` is when the server got its claim on the source. `serial` rises with each
# change, so that a scheduler that was stopped meanwhile changes nothing. `claim_uuid` is the claim
# on the destination. A move in flight is read again at `due_s`.
MOVES = _table(
    'moves',
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('rebalance_uuid', UUID, nullable=False, index=True),
    sa.Column('server', UUID, nullable=False),
    sa.Column('source', UUID, nullable=False),
    sa.Column('destination', UUID, nullable=False),
    sa.Column('since_s', SECONDS, nullable=False),
    sa.Column('state', sa.String(16), nullable=False),
    sa.Column('serial', sa.BigInteger, nullable=False),
    sa.Column('claim_uuid', UUID),
    sa.Column('started_s', SECONDS),
    sa.Column('changed_s', SECONDS, nullable=False),
    sa.Column('due_s', SECONDS),
    sa.Column('why', JSON_TEXT),
)
sa.Index(None, MOVES.c.state, MOVES.c.since_s, MOVES.c.uuid)

# Hosts that take no new servers until a time, because a rebalance empties them. `closed`: their
# service is disabled for that.
CLOSED_HOSTS = _table(
    'closed_hosts',
    sa.Column('host', NAME, primary_key=True),
    sa.Column('rebalance_uuid', UUID, nullable=False),
    sa.Column('until_s', SECONDS, nullable=False),
    sa.Column('closed', sa.Boolean(create_constraint=False), nullable=False),
)

# A number for each of the small tables that rises with every change, so that a check reads one
# row; for `nodes` the highest generation of any removed node; for `domains` it rises with each
# transaction that may change which nodes are in which exclusive domains; `moves` is the lock of
# transactions that start moves.
REVISIONS = _table(
    'revisions',
    sa.Column('name', sa.String(32), primary_key=True),
    sa.Column('value', sa.BigInteger, nullable=False),
)
