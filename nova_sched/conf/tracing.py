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
"""Options of the [tracing] group: traces of requests for OpenTelemetry."""

from oslo_config import cfg

GROUP = 'tracing'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
