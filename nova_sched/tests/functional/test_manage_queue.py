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
"""nova-sched-manage queue: what a running manager of queues tells."""

import json
import threading

import pytest

from nova_sched.cmd.manage import commands
from nova_sched.extensions.queues import flavor_verbs as queues
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.manage import runner
from nova_sched.tests.functional.queue_cloud import refused
from nova_sched.tests.functional.test_agent import conf, until
from nova_sched.tests.functional.test_queues import cloud

__all__ = ['cloud', 'conf']

SLOW = pytest.mark.parametrize('cloud', [60], indirect=True)


@pytest.fixture
def manage(cloud, tmp_path, capsys):
    """``manage('--waiting')``: what `queue list` prints."""
    run = runner('queue', tmp_path, capsys)

    def printed(*words):
        status, out, err = run('list', *words)
        assert (status, err) == (0, '')
        return out

    return printed


@SLOW
def test_what_waits_where(cloud, manage):
    placing = threading.Thread(target=refused, args=[cloud.place, 'server'])
    placing.start()
    until(lambda: cloud.queues.facts()[-1]['ready'])
    found = json.loads(manage('--waiting', '--format', 'json'))
    rows = [
        [cell.strip() for cell in line.split('|')[1:-1]] for line in manage().splitlines()[3:-1]
    ]
    cloud.router.delete(uuid_of('server'))
    placing.join()
    assert found == [{'name': 'small', 'queue': 'flavor.small', 'ready': 1, 'consumers': 0}]
    assert rows == [
        ['fallback', 'fallback', '0', '1'],
        ['results', 'results', '0', '1'],
        ['large', 'flavor.large', '0', '0'],
        ['small', 'flavor.small', '1', '0'],
    ]


@SLOW
def test_a_list_is_watched(cloud, manage, monkeypatch):
    runs = iter([lambda: None, _interrupt])
    monkeypatch.setattr(commands, 'sleep', lambda seconds: next(runs)())
    out = manage('--watch', '5', '--format', 'value', '--column', 'name')
    assert out.split() == ['fallback', 'results', 'large', 'small'] * 2


def _interrupt():
    raise KeyboardInterrupt


class Pages:
    """A manager of so many queues."""

    def __init__(self, count):
        self._names = [f'flavor.{number:04}' for number in range(count)]

    def facts(self, marker, limit):
        later = [name for name in self._names if marker is None or name > marker]
        return [{'queue': name} for name in later[:limit]]


@pytest.mark.parametrize(
    'count', [0, 1, queues.PAGE - 1, queues.PAGE, queues.PAGE + 1, 2 * queues.PAGE]
)
def test_all_of_them_page_by_page(count):
    found = [row['queue'] for row in queues.all_queues(Pages(count))]
    assert found == [f'flavor.{number:04}' for number in range(count)]
