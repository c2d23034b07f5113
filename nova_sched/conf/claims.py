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

"""Options of the [claims] group, and the default of oslo.db's [database] group."""

from oslo_config import cfg
from oslo_db import options as db_options

from nova_sched.conf import cluster

GROUP = 'claims'
OPTS = [
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


EMBEDDED = 'sqlite:///$state_path/nova-sched.sqlite'


def connection(conf):
    """Returns the URL of the database of claims."""
    if conf.claims.connection is None and cluster.reads_nova(conf):
        return EMBEDDED.replace('$state_path', conf.state_path)
    return conf.claims.connection or conf.database.connection


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
    # Set in place, so that the generated sample shows it too.
    cfg.set_defaults(db_options.database_opts, connection=EMBEDDED)
    conf.register_opts(db_options.database_opts, group='database')
