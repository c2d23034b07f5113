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

"""Options of the [dashboard] group: the pages that nova-sched-api serves under /dashboard."""

from oslo_config import cfg

GROUP = 'dashboard'
OPTS = [
    cfg.BoolOpt(
        'enabled',
        default=True,
        help='Serve the dashboard under `/dashboard`. It reads the database of `[database] '
        'connection`, so the API needs that option then.',
    ),
    cfg.StrOpt(
        'secret_key',
        secret=True,
        help='Text with which sessions are sealed: at least 32 random characters, else the API '
        'does not start. Processes that serve the same address need the same one. Without it '
        'each process makes its own when it starts, and callers log in again after a restart.',
    ),
    cfg.StrOpt(
        'auth_url',
        help='Address of Keystone at which callers log in. Without it that of '
        '`[keystone_authtoken] www_authenticate_uri`.',
    ),
    cfg.StrOpt(
        'login_rate',
        default='20/minute',
        help='How often one address may try to log in, as in `[api] plan_rate`. Empty: no limit.',
    ),
    cfg.IntOpt(
        'streams',
        default=8,
        min=0,
        help='Pages of one process that wait for changes of hosts at the same time; each holds '
        'a thread. Further pages ask again every two seconds.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
