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
"""Where claims and node facts are kept, and how long a claim or an offer of one is held; with the
default of oslo.db's [database] group."""

from oslo_config import cfg
from oslo_db import options as db_options

from nova_sched.conf import cluster

EMBEDDED = 'sqlite:///$state_path/nova-sched.sqlite'

CLAIMS_OPTS = [
    cfg.StrOpt(
        'store',
        default='sql',
        choices=[
            ('sql', 'claims and node facts live in a database and outlive the process'),
            ('memory', 'claims live in this process only: for trials and simulations'),
        ],
        help='Where claims are kept.',
    ),
    cfg.StrOpt(
        'connection',
        secret=True,
        help='URL of the database of claims. Without it, the database is `[database] connection`, '
        'or, where that is a database of Nova (`[cluster] source`), a SQLite file in '
        '`[DEFAULT] state_path`, which the schedulers of one machine share. Schedulers on '
        'several machines need one database server.',
    ),
    cfg.IntOpt(
        'pending_ttl',
        default=3600,
        min=1,
        mutable=True,
        help='Seconds after which a claim that no compute node has confirmed is released. '
        'Must be longer than the slowest build.',
    ),
    cfg.FloatOpt(
        'refresh_interval',
        default=2.0,
        min=0.1,
        mutable=True,
        help='Seconds between two polls of the database for changes by other schedulers. '
        'Correctness does not depend on it: claims are validated in the database. A '
        'shorter interval means fewer lost races.',
    ),
    cfg.FloatOpt(
        'retry_interval',
        default=1.0,
        min=0.05,
        help='Seconds to wait before a call to a database that does not answer is repeated.',
    ),
]
CANDIDATES_OPTS = [
    cfg.IntOpt(
        'ttl',
        default=600,
        min=1,
        mutable=True,
        help='Seconds for which a candidate that `select_candidates` has returned can be '
        'claimed. Nothing is held in the meantime: the longer it takes, the more often '
        'the host is full by then.',
    ),
    cfg.IntOpt(
        'max',
        default=10,
        min=1,
        mutable=True,
        help='Candidates for one instance: the default if a request names no number, and '
        'the maximum if it does.',
    ),
]
DATABASE_LIMITS_OPTS = [
    cfg.IntOpt(
        'connect_timeout',
        default=4,
        min=1,
        help='Seconds to connect to a database server, for each of its addresses.',
    ),
    cfg.IntOpt(
        'silence_timeout',
        default=10,
        min=0,
        help='Seconds after which TCP gives up a connection on which the machine of the '
        'database acknowledges nothing (keepalive and TCP_USER_TIMEOUT). 0 leaves the '
        'setting of the operating system.',
    ),
    cfg.IntOpt(
        'statement_timeout',
        default=8,
        min=0,
        help='Seconds after which the server ends a statement. 2 seconds later the '
        'scheduler gives up the connection if no answer has come. MySQL itself ends '
        'only SELECTs. 0 sets no limit on either side. nova-sched-manage reads whole '
        'tables: its statements have 300 seconds instead, and schema upgrades no limit.',
    ),
    cfg.IntOpt(
        'lock_timeout',
        default=6,
        min=0,
        help='Seconds that a transaction waits for the lock of another one; then it is '
        'rolled back and repeated. 0 leaves the default of the server. Should be more '
        'than idle_timeout.',
    ),
    cfg.IntOpt(
        'idle_timeout',
        default=5,
        min=0,
        help='Seconds after which the server ends a transaction that stands open while its '
        'process sends nothing, for example because the process was stopped. This '
        'releases its locks. MySQL, unlike MariaDB, has no such limit. 0 leaves the '
        'default of the server.',
    ),
]
OPTS = {
    'claims': CLAIMS_OPTS,
    'candidates': CANDIDATES_OPTS,
    'database_limits': DATABASE_LIMITS_OPTS,
}
# Set in place, so that the generated sample shows it too.
cfg.set_defaults(db_options.database_opts, connection=EMBEDDED)


def connection(conf):
    """Return the URL of the database of claims."""
    if conf.claims.connection is None and cluster.reads_nova(conf):
        return EMBEDDED.replace('$state_path', conf.state_path)
    return conf.claims.connection or conf.database.connection
