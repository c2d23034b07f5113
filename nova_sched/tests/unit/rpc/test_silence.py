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
"""Tests of the limits of time for RabbitMQ: they are defaults, and an operator's values are
stronger."""

from oslo_config import cfg
from oslo_messaging._drivers import impl_rabbit

from nova_sched.rpc import silence

GROUP = 'oslo_messaging_rabbit'


def options(tmp_path, text):
    file = tmp_path / 'nova_sched.conf'
    file.write_text(text)
    made = cfg.ConfigOpts()
    made.register_opts(impl_rabbit.rabbit_opts, group=GROUP)
    made(['--config-file', str(file)])
    return made[GROUP]


def test_a_silent_broker_is_noticed_within_15_seconds(tmp_path):
    """After two intervals; the driver looks twice as often as it sends heartbeats."""
    silence.set_defaults()
    found = options(tmp_path, '')
    look_s = found.heartbeat_timeout_threshold / found.heartbeat_rate / 2
    assert 2 * found.heartbeat_timeout_threshold + look_s <= 15
    assert found.rabbit_interval_max == silence.PAUSE_S


def test_an_operators_values_are_stronger(tmp_path):
    silence.set_defaults()
    found = options(
        tmp_path, f'[{GROUP}]\nheartbeat_timeout_threshold = 60\nrabbit_interval_max = 30\n'
    )
    assert (found.heartbeat_timeout_threshold, found.rabbit_interval_max) == (60, 30)
