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
"""``nova-sched-manage fragmentation``, of a running scheduler."""

import json

import pytest

from nova_sched.tests.functional.manage import runner


@pytest.fixture
def manage(daemon, tmp_path, capsys):
    return runner('fragmentation', tmp_path, capsys)


def test_show(manage, daemon):
    daemon.add('a', 'b', vcpus=8)
    status, out, _ = manage('show', '--format', 'json')
    assert status == 0
    found = json.loads(out)
    assert (found['hosts'], found['empty_hosts']) == (2, 2)
    assert [one['zone'] for one in found['zones']] == ['nova']
    status, out, _ = manage('show')
    assert status == 0
    assert '2 hosts, 2 of them without servers.' in out


@pytest.mark.parametrize(
    ('words', 'why'),
    [
        pytest.param(['--zone', 'moon'], 'Availability zone moon is not known', id='zone'),
        pytest.param(['--aggregate', '7'], 'Aggregate 7 is not known', id='aggregate'),
    ],
)
def test_places_that_are_not_there(manage, daemon, words, why):
    status, out, err = manage('show', *words)
    assert (status, out) == (1, '')
    assert why in err
