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

"""Options of the [database_limits] group: how long a database server may keep a scheduler
waiting."""

from oslo_config import cfg

GROUP = 'database_limits'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
