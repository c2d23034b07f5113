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
"""Serves the measures of a daemon to Prometheus.

Each process writes its measures into a file of a directory that the daemon makes; the first
process reads all files when it is asked. So a request costs the workers nothing, and does not wait
for one that stands still. The sums keep the counts of a process that has ended.
"""

import contextlib
import itertools
import json
import logging
import os
import shutil
import tempfile
import threading
import uuid
from pathlib import Path

import prometheus_client
import psutil
from prometheus_client import core

from nova_sched import errors
from nova_sched.measures import COUNTER, GAUGE, HISTOGRAM, MAX, NEWEST
from nova_sched.measures.catalogue import MEASURES

LOG = logging.getLogger(__name__)

WRITE_S = 2.0  # between two writes of a process
THREADS = 2  # for requests
MAX_BODY = 1024  # bytes; no request needs one
FAMILIES = {
    COUNTER: core.CounterMetricFamily,
    GAUGE: core.GaugeMetricFamily,
    HISTOGRAM: core.HistogramMetricFamily,
}


class MeasureFile:
    """Writes the measures of this process. ``begin`` is called after the fork."""

    def __init__(self, directory, measures=MEASURES):
        self._directory, self._measures = Path(directory), measures
        self._path = None

    def begin(self):
        """Write them every few seconds, until the process ends."""
        self._path = self._directory / f'{os.getpid()}-{uuid.uuid4().hex}'
        self._measures.is_on = True
        threading.Thread(target=self._run, name='nova-sched-metrics', daemon=True).start()

    def _run(self):
        pause = threading.Event()
        while True:
            try:
                self.write()
            except OSError as error:  # the directory goes when the daemon ends
                LOG.debug('Metrics are not written: %s', error)
            pause.wait(WRITE_S)

    def write(self):
        """Write them now. A reader sees the whole file or none of it."""
        text = json.dumps(self._measures.plain())
        new = self._path.with_suffix('.new')
        new.write_text(text)
        new.replace(self._path)


class Collector:
    """The measures of all processes that write into a directory, for prometheus_client.

    ``is_alive(pid)``: whether a process still runs.
    """

    def __init__(self, directory, measures=MEASURES, is_alive=psutil.pid_exists):
        self._directory, self._measures, self._is_alive = Path(directory), measures, is_alive
        self._ended: dict[str, dict] = {}  # sums of ended processes, by measure
        self._lock = threading.Lock()

    def collect(self):
        """The families of metrics, as prometheus_client asks for them."""
        with self._lock:
            processes = self._read()
            for measure in self._measures:
                yield self._family(measure, processes)

    def _read(self):
        """What the living processes have, oldest first. Those that have ended are added to the
        sums."""
        processes = []
        for path in sorted(self._directory.iterdir()):
            pid, _, rest = path.name.partition('-')
            if path.suffix or not rest:
                continue
            with contextlib.suppress(OSError, ValueError):
                # In this order: what a process wrote last is read.
                is_alive = self._is_alive(int(pid))
                plain = json.loads(path.read_text())
                if is_alive:
                    processes.append(plain)
                    continue
                for measure in self._measures:
                    if measure.kind != GAUGE:
                        _add(self._ended.setdefault(measure.name, {}), measure, plain)
                path.unlink()
        return sorted(processes, key=lambda plain: plain['time'])

    def _family(self, measure, processes):
        sums = dict(self._ended.get(measure.name, {}))
        for plain in processes:
            _add(sums, measure, plain)
        family = FAMILIES[measure.kind](measure.name, measure.text, labels=measure.labels)
        for labels, value in sorted(sums.items()):
            if measure.kind == HISTOGRAM:
                *counts, total = value
                bounds = (*map(str, measure.bounds), '+Inf')
                cumulative = zip(bounds, itertools.accumulate(counts), strict=True)
                family.add_metric(labels, list(cumulative), total)
            else:
                family.add_metric(labels, value)
        return family


def _add(sums, measure, plain):
    """Add what one process has of a measure."""
    values = plain['values'].get(measure.name, ())
    if measure.merge == NEWEST and values:
        sums.clear()
    for names, value in values:
        labels = tuple(names)
        before = sums.get(labels)
        if before is None or measure.merge == NEWEST:
            sums[labels] = value
        elif measure.merge == MAX:
            sums[labels] = max(before, value)
        elif measure.kind == HISTOGRAM:
            sums[labels] = [own + other for own, other in zip(before, value, strict=True)]
        else:
            sums[labels] = before + value


class Export:
    """The metrics of one daemon: made by its first process before it forks. ``begin`` is called in
    each process that has measures.

    Raises BadConfig if it cannot listen.
    """

    def __init__(self, host, port):
        from nova_sched.cmd.web_server import WebServer  # late: few daemons serve metrics

        self.directory = Path(tempfile.mkdtemp(prefix='nova-sched-metrics-'))
        self._pid = os.getpid()
        self._file = MeasureFile(self.directory)
        registry = prometheus_client.CollectorRegistry()
        registry.register(Collector(self.directory))
        try:
            self._server = WebServer(
                (host, port),
                prometheus_client.make_wsgi_app(registry),
                MAX_BODY,
                threads=THREADS,
                name='nova-sched-metrics',
            )
        except OSError as error:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise errors.BadConfig(
                '[metrics_export] host and port', f'{host}:{port}: {error}'
            ) from None
        self._thread = threading.Thread(target=self._server.serve, daemon=True)
        self._thread.start()
        LOG.info('Metrics on http://%s:%d/metrics', host, self.port)

    @property
    def port(self):
        return self._server.bind_addr[1]

    def begin(self):
        if os.getpid() != self._pid:
            self._server.socket.close()  # that of the first process stays open
        self._file.begin()

    def end(self):
        """In the first process: serve no more."""
        if os.getpid() == self._pid:
            self._server.stop()
            self._thread.join()
            shutil.rmtree(self.directory, ignore_errors=True)


class NoExport:
    """The metrics of a daemon that serves none."""

    def begin(self):
        pass

    def end(self):
        pass


def of_options(conf, daemon):
    """The Export of these options for a daemon of this name; a NoExport if they want none. Raises
    BadConfig."""
    group = conf.metrics_export
    if not group.enabled:
        return NoExport()
    return Export(group.host, getattr(group, f'{daemon}_port'))
