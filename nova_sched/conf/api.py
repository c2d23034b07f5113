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
"""Options of the REST API."""

from oslo_config import cfg

API_OPTS = [
    cfg.StrOpt(
        'auth_strategy',
        default='keystone',
        choices=[
            ('keystone', 'tokens are validated as [keystone_authtoken] says'),
            ('noauth', 'every caller is accepted: for trials on one machine only'),
        ],
        help='How callers are authenticated.',
    ),
    cfg.HostAddressOpt(
        'host',
        default='127.0.0.1',
        help='Address on which `nova-sched-api` listens. It speaks plain HTTP: put a proxy '
        'that ends TLS before it, and see `[oslo_middleware] '
        'enable_proxy_headers_parsing`. Another WSGI server has a separate setting.',
    ),
    cfg.BoolOpt(
        'insecure',
        default=False,
        help='Let `nova-sched-api` listen on an address other than loopback although '
        '`auth_strategy` is `noauth`: then any caller that reaches it may do anything.',
    ),
    cfg.PortOpt('port', default=8790, help='TCP port on which `nova-sched-api` listens.'),
    cfg.IntOpt(
        'threads',
        default=16,
        min=1,
        help='Requests of each process of the API that wait for a scheduler at the same time. '
        '`nova-sched-api` has further threads for requests that wait for something else.',
    ),
    cfg.IntOpt(
        'shutdown_timeout',
        default=60,
        min=1,
        help='Seconds for which a stopping `nova-sched-api` waits for requests in flight.',
    ),
    cfg.IntOpt(
        'rpc_timeout',
        default=60,
        min=1,
        help='Seconds to wait for a scheduler that sends heartbeats. After that the caller '
        'gets 503. Must be longer than the planning of a group may take: see `[groups]`.',
    ),
    cfg.FloatOpt(
        'external_scheduler_timeout',
        default=4.0,
        min=0.1,
        help='Seconds in which `POST /v1/external-scheduler` is answered. After that the caller '
        'gets 504. Must be shorter than the time for which the caller waits.',
    ),
    cfg.IntOpt(
        'max_body_size',
        default=1024 * 1024,
        min=1024,
        help='Bytes that the body of a request may have. A longer one is refused with 413.',
    ),
    cfg.StrOpt(
        'plan_rate',
        default='30/minute',
        help='How often each process of the API creates, validates, updates, plans again, '
        'renews or deletes groups for one project, or shows one in the dashboard, such as '
        '`10/second` or `120/minute`. A request above it gets 429 with Retry-After. Empty: no '
        'limit. It does not apply to callers that '
        'the rule `nova_sched:groups:any_rate` allows.',
    ),
    cfg.IntOpt(
        'max_limit',
        default=1000,
        min=1,
        help='Groups in one page of a list: the default if a request names no limit, and '
        'the maximum if it does.',
    ),
]
OPTS = {'api': API_OPTS}
