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
"""The metrics of daemons, as Prometheus reads them."""

import contextlib
import json
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from nova_sched.tests.fixtures.process import free_port
from nova_sched.tests.functional.test_agent_daemon import TIMEOUT_S, Daemon
from nova_sched.tests.unit.measures.test_catalogue import expressions

ALERTS = Path(__file__).resolve().parents[3] / 'etc' / 'metrics' / 'alerts.yaml'


class Measured(Daemon):
    """A daemon that serves metrics."""

    def measure(self, tmp_path, *lines):
        self.port = free_port()
        self.configure(
            *lines,
            f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite',
            f'[metrics_export]\nenabled = True\n{self._module}_port = {self.port}',
        )
        self.start()

    def scrape(self):
        """The values of all samples, by name and labels."""
        url = f'http://127.0.0.1:{self.port}/metrics'
        with urllib.request.urlopen(url) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    def shows(self, *sample):
        """Wait until there is such a sample; returns its value."""
        end = time.monotonic() + TIMEOUT_S
        while (found := self.scrape()).get(sample) is None:
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found[sample]


@pytest.fixture
def daemon(tmp_path, request):
    made = Measured(tmp_path, module=request.param)
    yield made
    made.kill()


@pytest.mark.parametrize('daemon', ['scheduler'], indirect=True)
def test_a_scheduler_of_two_processes_until_it_ends(daemon, tmp_path):
    daemon.measure(tmp_path, '[scheduler]\nworkers = 2')
    daemon.says(f'Metrics on http://127.0.0.1:{daemon.port}/metrics')
    assert daemon.shows('nova_sched_hosts', 'up') == 0
    assert daemon.shows('nova_sched_store_poll_age_seconds') >= 0
    daemon.tell(signal.SIGTERM)
    assert daemon.status() == 0
    with pytest.raises(urllib.error.URLError):
        daemon.scrape()
    assert 'Traceback' not in daemon.log


@pytest.mark.parametrize('daemon', ['queues'], indirect=True)
def test_a_manager_of_queues(daemon, tmp_path):
    daemon.measure(tmp_path)
    daemon.says('Managing queues')
    assert daemon.shows('nova_sched_jobs', 'queued') == 0
    assert daemon.shows('nova_sched_queues') == 0


@pytest.mark.parametrize('daemon', ['api'], indirect=True)
def test_an_api(daemon, tmp_path):
    port = free_port()
    daemon.measure(tmp_path, f'[api]\nauth_strategy = noauth\nport = {port}')
    daemon.says(f'Serving on http://127.0.0.1:{port}')
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/healthcheck/live') as answer:
        assert answer.status == 200
    assert daemon.shows('nova_sched_api_requests_total', 'show_live', '200') == 1


@pytest.mark.parametrize('daemon', ['queues'], indirect=True)
def test_a_port_that_is_taken(daemon, tmp_path):
    daemon.measure(tmp_path)
    daemon.says('Metrics on')
    other = Measured(tmp_path, module='queues')
    other._root = tmp_path / 'other'
    other._root.mkdir()
    try:
        other.configure(
            f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite',
            f'[metrics_export]\nenabled = True\nqueues_port = {daemon.port}',
        )
        other.start()
        assert other.status() == 78
        assert '[metrics_export] host and port' in other.log
    finally:
        other.kill()


@pytest.fixture
def prometheus(tmp_path):
    """Return a function that starts Prometheus for a port, with our alerts; it returns its
    address."""
    children = []

    def start(port):
        own = free_port()
        job = {'job_name': 'nova-sched', 'static_configs': [{'targets': [f'127.0.0.1:{port}']}]}
        config = {
            'global': {'scrape_interval': '1s', 'evaluation_interval': '1s'},
            'rule_files': [str(ALERTS)],
            'scrape_configs': [job],
        }
        path = tmp_path / 'prometheus.yaml'
        path.write_text(yaml.safe_dump(config))
        words = f'--web.listen-address=127.0.0.1:{own}', f'--storage.tsdb.path={tmp_path}/data'
        with (tmp_path / 'prometheus.log').open('w') as log:
            children.append(
                subprocess.Popen(
                    ['prometheus', f'--config.file={path}', *words], stdout=log, stderr=log
                )
            )
        return f'http://127.0.0.1:{own}/api/v1'

    yield start
    for child in children:
        child.kill()
        child.wait()


def asked(url, path, is_enough):
    """The answer of Prometheus, as soon as it is enough."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        with contextlib.suppress(urllib.error.URLError):
            with urllib.request.urlopen(url + path) as answer:
                found = json.loads(answer.read())['data']
            if is_enough(found):
                return found
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize('daemon', ['scheduler'], indirect=True)
def test_prometheus_reads_them_and_evaluates_alerts_and_panels(daemon, tmp_path, prometheus):
    daemon.measure(tmp_path)
    daemon.says('Metrics on')
    daemon.shows('nova_sched_hosts', 'up')
    url = prometheus(daemon.port)
    query = '/query?query=' + urllib.parse.quote('nova_sched_hosts{state="up"}')
    (found,) = asked(url, query, lambda found: found['result'])['result']
    assert found['value'][1] == '0'
    rules = rules_of(asked(url, '/rules', are_evaluated))
    assert {one['health'] for one in rules} == {'ok'}
    assert [one['name'] for one in rules if one['state'] == 'firing'] == []
    for expression in expressions().values():
        words = expression.replace('$__rate_interval', '5m')
        # Prometheus answers a mistake with an HTTP error, which ``asked`` does not accept.
        asked(url, '/query?query=' + urllib.parse.quote(words), lambda found: 'result' in found)


def rules_of(found):
    return [rule for group in found['groups'] for rule in group['rules']]


def are_evaluated(found):
    rules = rules_of(found)
    return rules and all(one['health'] != 'unknown' for one in rules)
