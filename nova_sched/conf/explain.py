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
"""Options of the [explain] group: which decisions can be explained later, and for how long."""

from oslo_config import cfg

GROUP = 'explain'
OPTS = [
    cfg.IntOpt(
        'retention',
        default=7 * 24 * 3600,
        min=0,
        mutable=True,
        help='Seconds for which the decision records are kept: what each filter saw and '
        'left, and why a request was refused. 0 keeps none. With [claims] store = '
        'memory each process keeps only its latest thousand.',
    ),
    cfg.FloatOpt(
        'sample',
        default=1.0,
        min=0.0,
        max=1.0,
        mutable=True,
        help='Share of the decisions that found a host that is recorded too, with the '
        'weights of the chosen host and of its alternates by each weigher: 0 is none, '
        '1 is all, up to `per_second`. Records of refusals are always kept.',
    ),
    cfg.FloatOpt(
        'per_second',
        default=100.0,
        min=0.1,
        mutable=True,
        help='Decisions that found a host of which each process records at most so many a '
        'second, on an average of ten seconds. It bounds what records cost under load.',
    ),
    cfg.IntOpt(
        'most_placed',
        default=1_000_000,
        min=0,
        mutable=True,
        help='Records of decisions that found a host which the database keeps at most, for all '
        'schedulers: the oldest go first. Each takes about 2 KiB. Refusals do not count.',
    ),
    cfg.StrOpt(
        'tell_callers',
        default='rules',
        choices=[
            ('rules', 'The rule that removed the last hosts, and the id of the request'),
            ('all', 'All rules that removed hosts, with numbers of hosts and free amounts'),
        ],
        mutable=True,
        help='What a conductor is told when its request finds no host. Nova shows this text '
        'to the owner of the server. The log and the decision record have everything in any '
        'case. Schedulers, and conductors that use queues, read this option.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
