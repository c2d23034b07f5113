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
"""Limits of time for the connections to RabbitMQ, as defaults of oslo.messaging's options."""

from oslo_config import cfg
from oslo_messaging._drivers import impl_rabbit

# A broker that is silent for two of these intervals counts as lost: within 13 s, with one check
# each second. With less than 5 s a busy broker or process would count as lost.
HEARTBEAT_S = 6
# Longest pause between two attempts to connect, that is until a broker that is back is found.
PAUSE_S = 5


def set_defaults():
    """Set these defaults. The operator's values, in the configuration or in the URL, override
    them."""
    cfg.set_defaults(
        impl_rabbit.rabbit_opts,
        heartbeat_timeout_threshold=HEARTBEAT_S,
        rabbit_interval_max=PAUSE_S,
    )
