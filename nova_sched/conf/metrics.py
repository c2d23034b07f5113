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

"""Options of Nova's [metrics] group: the weights of the metrics that hosts report."""

from oslo_config import cfg

GROUP = 'metrics'
OPTS = [
    cfg.FloatOpt(
        'weight_multiplier',
        default=1.0,
        mutable=True,
        help='Weight of the metrics in the sum. The hosts of an aggregate whose metadata '
        'has a key `metrics_weight_multiplier` take the value from there; of several '
        'aggregates the smallest counts.',
    ),
    cfg.ListOpt(
        'weight_setting',
        default=[],
        mutable=True,
        help='The metrics that count, and by how much, as `name=ratio`: a host weighs the '
        'sum of value x ratio. MetricsFilter keeps the hosts that report all of them. '
        'An item that makes no sense is logged and left out.',
    ),
    cfg.BoolOpt(
        'required',
        default=True,
        mutable=True,
        help='Requests fail while a candidate host does not report one of these metrics: '
        'enable MetricsFilter to exclude such hosts. If false, such a host weighs '
        'weight_of_unavailable.',
    ),
    cfg.FloatOpt(
        'weight_of_unavailable',
        default=-10000.0,
        mutable=True,
        help='Weight of a host that does not report one of the metrics, if they are not required.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
