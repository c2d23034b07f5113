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
"""An extension of another package: the example of the manual, installed next to the core."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fixtures import process, scheduler
from nova_sched.tests.functional.harness import eventually, spec

SOURCE = Path(__file__).resolve().parents[1] / 'extension_package'


class Api(scheduler.Daemon):
    module, listens = 'nova_sched.cmd.api', 'Serving on'


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package is there for every process that the test starts."""
    shutil.copytree(SOURCE, tmp_path / 'source')  # a build leaves files in its source
    words = '--quiet --no-deps --no-index --no-build-isolation --target'.split()
    subprocess.run(
        [sys.executable, '-m', 'pip', 'install', *words, tmp_path / 'site', tmp_path / 'source'],
        check=True,
        env={**os.environ, 'PIP_CONFIG_FILE': os.devnull},
    )
    monkeypatch.setenv('PYTHONPATH', str(tmp_path / 'site'))


def read(url):
    request = urllib.request.Request(url, headers={'X-Auth-Token': 'admin:operators'})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def test_decisions_are_counted_and_shown(installed, cloud, tmp_path):
    metrics, api = process.free_port(), process.free_port()
    daemon = cloud.daemon(metrics_export__enabled=True, metrics_export__scheduler_port=metrics)
    cloud.add(2)
    for name, project in (('one', 'red'), ('two', 'blue'), ('three', 'red')):
        cloud.scheduler.select_destinations(spec(project_id=project), [uuid_of(name)])
    counts = {'red': 2, 'blue': 1}

    words = ['decision', 'count', '--format', 'json', '--config-file', daemon.settings]
    told = subprocess.run(
        [Path(sys.executable).with_name('nova-sched-manage'), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert {one['project']: one['decisions'] for one in json.loads(told.stdout)} == counts

    def measured():
        text = read(f'http://127.0.0.1:{metrics}/metrics')
        return all(f'acme_decisions_total{{project="{name}"}}' in text for name in counts)

    eventually(measured, 30)
    options = {'api.port': api, 'api.auth_strategy': 'noauth'}
    served = Api(tmp_path / 'api', cloud.url, cloud.database, options)
    served.start()
    try:
        assert json.loads(read(f'http://127.0.0.1:{api}/v1/decisions')) == counts
        assert 'count_decisions' in read(f'http://127.0.0.1:{api}/v1/openapi.json')
    finally:
        served.kill()


def test_one_that_fails_is_left_out(installed, cloud, tmp_path):
    (part,) = (tmp_path / 'site').rglob('parts.py')
    part.write_text(part.read_text().replace('self.counts[project] += 1', 'self.gone += 1'))
    daemon = cloud.daemon()
    cloud.add(1)
    cloud.scheduler.select_destinations(spec(), [uuid_of('one')])
    daemon.until_it_says('The extension acme_counts failed at a seam')
    daemon.kill()
    part.write_text('not Python')
    daemon = cloud.daemon('two')
    daemon.until_it_says('The extension acme_counts cannot begin; it is left out')
    cloud.scheduler.select_destinations(spec(), [uuid_of('two')])
