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
"""Options of the [metrics_export] group: figures of the daemons for Prometheus.

Not [metrics], which has Nova's weights of the metrics that hosts report.
"""

from oslo_config import cfg

GROUP = 'metrics_export'
SCHEDULER, AGENT, API, QUEUES = 'scheduler', 'agent', 'api', 'queues'
PORTS = {SCHEDULER: 9781, AGENT: 9782, API: 9783, QUEUES: 9784}


def _port(daemon):
    return cfg.PortOpt(
        f'{daemon}_port',
        default=PORTS[daemon],
        min=1,
        help=f'Port of the metrics of nova-sched-{daemon}.',
    )


OPTS = [
    cfg.BoolOpt(
        'enabled',
        default=False,
        help='Serve metrics over HTTP under /metrics, in the format of Prometheus. The metrics '
        'of all worker processes of a daemon are added up.',
    ),
    cfg.StrOpt(
        'host',
        default='127.0.0.1',
        help='Address at which metrics are served. They are served without authentication, and '
        'name aggregates and zones: use an address that only the monitoring can reach.',
    ),
    *map(_port, PORTS),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
