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
"""The metrics of a daemon: the sums of its processes, and what Prometheus reads of them."""

import contextlib
import os
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nova_sched import errors
from nova_sched.cmd.metrics_export import Collector, Export, MeasureFile, NoExport, of_options
from nova_sched.conf import CONF
from nova_sched.conf.telemetry import SCHEDULER
from nova_sched.measures import MAX, NEWEST, Counter, Gauge, Histogram, Measures
from nova_sched.measures.catalogue import MEASURES


class Process:
    """One process of a daemon, with measures of its own."""

    def __init__(self, directory):
        self.jobs = Counter('jobs', 'Jobs.', ('state',))
        self.age = Gauge('age', 'Age.')
        self.lag = Gauge('lag', 'Lag.', merge=MAX)
        self.hosts = Gauge('hosts', 'Hosts.', ('state',), NEWEST)
        self.took = Histogram('took_seconds', 'Time.', bounds=(1.0, 2.0))
        self.measures = Measures([self.jobs, self.age, self.lag, self.hosts, self.took])
        self.file = MeasureFile(directory, self.measures)
        self.file._path = directory / f'{Process.next_pid}-x'
        Process.next_pid += 1

    next_pid = 1


@pytest.fixture
def daemon(tmp_path):
    Process.next_pid = 1
    made = [Process(tmp_path), Process(tmp_path)]
    made[0].alive = {1, 2}
    made[0].collector = Collector(
        tmp_path, made[0].measures, is_alive=lambda pid: pid in made[0].alive
    )
    return made


def samples(collector):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def test_counters_never_fall_when_a_process_ends(daemon):
    one, other = daemon
    other.jobs.add('failed')
    for process in daemon:
        process.jobs.add('done', by=2)
        process.took.observe(0.5)
        process.age.set(5)
        process.file.write()
    assert samples(one.collector)['age',] == 10
    one.alive = {1}
    for _ in range(2):
        values = samples(one.collector)
        assert (values['jobs_total', 'done'], values['jobs_total', 'failed']) == (4, 1)
        assert values['took_seconds_count',] == 2
        assert values['age',] == 5  # of the living one only
    third = Process(other.file._directory)
    one.alive = {1, 3}
    third.jobs.add('done')
    third.file.write()
    assert samples(one.collector)['jobs_total', 'done'] == 5


def test_of_what_each_process_knows_the_newest_counts(daemon, monkeypatch):
    one, other = daemon
    other.hosts.replace({('up',): 7})
    one.hosts.replace({('up',): 9, ('down',): 1})
    for process, now_s in ((one, 100.0), (other, 200.0)):
        monkeypatch.setattr('nova_sched.measures.time.time', lambda now_s=now_s: now_s)
        process.file.write()
    found = samples(one.collector)
    assert found['hosts', 'up'] == 7
    assert ('hosts', 'down') not in found


def test_of_some_gauges_the_highest_counts(daemon):
    for process, age_s in zip(daemon, (7, 5), strict=True):
        process.lag.set(age_s)
        process.age.set(age_s)
        process.file.write()
    found = samples(daemon[0].collector)
    assert (found['lag',], found['age',]) == (7, 12)


def test_histograms_are_cumulative(daemon):
    one, other = daemon
    for value in (0.5, 1.5, 9.0):
        one.took.observe(value)
        other.took.observe(value)
    for process in daemon:
        process.file.write()
    found = samples(one.collector)
    assert [found['took_seconds_bucket', bound] for bound in ('1.0', '2.0', '+Inf')] == [2, 4, 6]
    assert (found['took_seconds_count',], found['took_seconds_sum',]) == (6, 22.0)


def test_a_broken_file_is_left_out(daemon):
    one, other = daemon
    one.jobs.add('done')
    one.file.write()
    for text in ('', '{'):
        other.file._path.write_text(text)
        assert samples(one.collector)['jobs_total', 'done'] == 1


def test_a_served_export(monkeypatch):
    export = Export('127.0.0.1', 0)
    monkeypatch.setattr(MEASURES, 'is_on', False)
    monkeypatch.setattr(export._file, '_run', lambda: None)  # no thread writes
    try:
        export.begin()
        export._file.write()
        with urllib.request.urlopen(f'http://127.0.0.1:{export.port}/metrics') as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    finally:
        export.end()
    assert 'nova_sched_decisions' in {family.name for family in families}
    assert not export.directory.exists()


def test_callers_that_dawdle_keep_no_other_waiting():
    export = Export('127.0.0.1', 0)
    where = '127.0.0.1', export.port
    with contextlib.ExitStack() as stack:
        stack.callback(export.end)
        for _ in range(20):
            one = stack.enter_context(socket.create_connection(where))
            one.sendall(b'GET /metr')
        with urllib.request.urlopen('http://{}:{}/metrics'.format(*where), timeout=60) as answer:
            assert answer.status == 200
        one.sendall(b'x' * 100000)
        assert one.recv(100).split()[1] == b'431'


def test_only_the_first_process_ends_it(monkeypatch):
    export = Export('127.0.0.1', 0)
    with pytest.raises(errors.BadConfig, match=f'127.0.0.1:{export.port}'):
        Export('127.0.0.1', export.port)
    with monkeypatch.context() as patch:
        patch.setattr(os, 'getpid', lambda: -1)
        export.end()
    assert export.directory.exists()
    export.end()


def test_without_the_option_nothing_is_served():
    made = of_options(CONF, SCHEDULER)
    assert isinstance(made, NoExport)
    made.begin()
    made.end()
