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
"""What the daemons tell of their work: notifications, figures for Prometheus, traces."""

from oslo_config import cfg, types

UNVERSIONED, VERSIONED, BOTH = 'unversioned', 'versioned', 'both'
REFUSALS, GROUPS, CLAIMS = 'refusals', 'groups', 'claims'  # kinds of events
SCHEDULER, AGENT, API, QUEUES = 'scheduler', 'agent', 'api', 'queues'
PORTS = {SCHEDULER: 9781, AGENT: 9782, API: 9783, QUEUES: 9784}

# As in Nova, and one of our own.
NOTIFICATIONS_OPTS = [
    cfg.StrOpt(
        'notification_format',
        default=UNVERSIONED,
        choices=[
            (UNVERSIONED, 'only the notifications without versions'),
            (VERSIONED, 'only the versioned notifications'),
            (BOTH, 'both'),
        ],
        help='Which notifications of calls are sent, if `[oslo_messaging_notifications] driver` '
        'is set. Only for the source `nova`.',
    ),
    cfg.ListOpt(
        'versioned_notifications_topics',
        default=['versioned_notifications'],
        help='Topics of the versioned notifications. Those without versions go to '
        '`[oslo_messaging_notifications] topics`.',
    ),
    cfg.ListOpt(
        'scheduler_events',
        default=[],
        item_type=types.String(
            choices=[
                (REFUSALS, 'requests that found no host'),
                (GROUPS, 'plans of groups'),
                (CLAIMS, 'claims that were made, changed or ended'),
            ]
        ),
        help='Events of which the scheduler notifies on `versioned_notifications_topics`, if '
        '`[oslo_messaging_notifications] driver` is set. `refusals`: each request that found no '
        'host, with the reasons of the filters. `groups`: each plan of a group that was claimed, '
        'refused or deleted. `claims`: the claims that each transaction made, confirmed, reverted '
        'or ended. They name hosts and amounts.',
    ),
]
# Not [metrics], which has Nova's weights of the metrics that hosts report.
METRICS_EXPORT_OPTS = [
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
    *(
        cfg.PortOpt(
            f'{daemon}_port',
            default=port,
            min=1,
            help=f'Port of the metrics of nova-sched-{daemon}.',
        )
        for daemon, port in PORTS.items()
    ),
]
TRACING_OPTS = [
    cfg.BoolOpt(
        'enabled',
        default=False,
        help='Send traces of requests to a collector of OpenTelemetry, over OTLP and HTTP. Needs '
        'the packages of the extra `tracing`. Requests whose caller is traced are traced too: the '
        'context of their message has a `traceparent` of W3C, or that of osprofiler.',
    ),
    cfg.FloatOpt(
        'sample',
        default=0.01,
        min=0.0,
        max=1.0,
        help='Share of the requests that the scheduler traces if their caller does not say '
        'whether to trace them.',
    ),
    cfg.URIOpt(
        'endpoint',
        default='http://127.0.0.1:4318/v1/traces',
        schemes=['http', 'https'],
        help='Where traces are sent. The environment variables of OpenTelemetry, such as '
        '`OTEL_EXPORTER_OTLP_HEADERS`, have the other settings of the exporter.',
    ),
]
OPTS = {
    'notifications': NOTIFICATIONS_OPTS,
    'metrics_export': METRICS_EXPORT_OPTS,
    'tracing': TRACING_OPTS,
}
