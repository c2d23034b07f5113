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
"""Tests of reading policies."""

import pytest

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.sim.replays import policies


@pytest.fixture
def conf():
    """The configuration, which a test may change."""
    yield CONF
    for options in policies.BUILT_IN.values():
        for name in {**policies.ALWAYS, **options}:
            group, _, option = name.partition('.')
            CONF.clear_override(option, group=None if group == 'default' else group)


def test_a_built_in_policy():
    name, options, path = policies.read('best-fit')
    assert (name, path) == ('best-fit', None)
    assert options['filter_scheduler.cpu_weight_multiplier'] == -1.0
    assert options['filter_scheduler.fragmentation_weight_multiplier'] == 0.0


def test_a_policy_of_a_file(tmp_path):
    file = tmp_path / 'mine.conf'
    file.write_text('')
    assert policies.read(f'mine={file}') == ('mine', {}, str(file))


@pytest.mark.parametrize(
    'text, why',
    [
        pytest.param('bestfit', 'one of nova, first-fit', id='unknown'),
        pytest.param('mine=/nowhere/at/all', 'no file /nowhere/at/all', id='no file'),
    ],
)
def test_a_policy_that_cannot_be_read(text, why):
    with pytest.raises(errors.BadConfig, match=why):
        policies.read(text)


def test_later_options_count(conf):
    name = 'filter_scheduler.ram_weight_multiplier'
    policies.apply(conf, {name: 2.0}, policies.BUILT_IN['keep-empty'])
    wanted = conf.filter_scheduler
    assert (wanted.ram_weight_multiplier, wanted.keep_empty) == (0.0, True)
    assert conf.service_down_time == 10**9
