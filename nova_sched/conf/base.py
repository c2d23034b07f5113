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

"""Options of Nova's [DEFAULT] group that a scheduler reads."""

import socket

from oslo_config import cfg

SHUTDOWN_S = 180  # that a daemon may take to stop, as the services of Nova since 34
DEFAULT_OPTS = [
    cfg.HostAddressOpt(
        'host',
        default=socket.gethostname(),
        sample_default='<current_hostname>',
        help='Name of this daemon: the server part of its RPC queue, `scheduler.<host>`.',
    ),
    cfg.StrOpt(
        'state_path',
        default='/var/lib/nova-sched',
        help='Directory for the state of the daemons: the embedded database, unless `[database] '
        'connection` names another one. It must exist.',
    ),
    cfg.StrOpt(
        'default_availability_zone',
        default='nova',
        help='Zone of the hosts that no aggregate gives a zone.',
    ),
    cfg.IntOpt(
        'service_down_time',
        default=60,
        min=1,
        mutable=True,
        help='Seconds without a report after which a compute node counts as down. '
        'ComputeFilter passes a host while its last report is at most this old.',
    ),
    cfg.IntOpt(
        'report_interval',
        default=10,
        min=1,
        mutable=True,
        help="Seconds between two heartbeats of a scheduler in Nova's table of services. Only "
        'where hosts are read from Nova ([cluster] source).',
    ),
    cfg.StrOpt(
        'service_backend',
        default='threading',
        choices=[
            ('threading', 'native threads'),
            ('eventlet', 'green threads; deprecated by oslo.messaging and oslo.service'),
        ],
        help='How the daemons run their threads. Read before all other options: from a '
        'configuration file, or from the environment as OS_DEFAULT__SERVICE_BACKEND.',
    ),
]
OPTS = {'DEFAULT': DEFAULT_OPTS}


def set_service_defaults(conf=None):
    """Register oslo.service's options with our defaults; without ``conf`` only set these, for the
    sample."""
    from oslo_service import opts  # late: few commands need it

    opts.set_service_opts_defaults(
        cfg.ConfigOpts() if conf is None else conf, graceful_shutdown_timeout=SHUTDOWN_S
    )
