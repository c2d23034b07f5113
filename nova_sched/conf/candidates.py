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
"""Options of the [candidates] group: hosts that are offered first and claimed later."""

from oslo_config import cfg

GROUP = 'candidates'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
