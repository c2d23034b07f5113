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
"""Traces as spans of OpenTelemetry; these tests need its SDK."""

import gzip
import http.server
import threading

import pytest

from nova_sched import errors
from nova_sched.cmd import trace_export
from nova_sched.conf import CONF
from nova_sched.engine.decide import Step
from nova_sched.tracing import Parent, Tracer

sdk = pytest.importorskip('opentelemetry.sdk.trace.export')
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: E402
    InMemorySpanExporter,
)

PARENT = Parent(7, 9)
GZIP = b'\x1f\x8b'


@pytest.fixture
def exported():
    """Return a function: the spans of all traces that ended in a block."""
    memory = InMemorySpanExporter()
    export = trace_export.TraceExport(sdk.SimpleSpanProcessor(memory), 'scheduler', 'control-1')

    def spans(*traces):
        for trace in traces:
            export.put(trace)
        export.flush()
        return {span.name: span for span in memory.get_finished_spans()}

    return spans


def trace(parent=PARENT):
    made = Tracer(1.0)
    made.sink = lambda _: None
    with made.following(parent):
        return made.begin('select_destinations', instances=1)


def test_a_trace_is_a_span_with_parts(exported):
    made = trace()
    made.add('decide', 1.0, 1.5, events=(Step('RamFilter', 3, 2),), attempt=1)
    made.end()
    found = exported(made)
    root, part = found['select_destinations'], found['decide']
    assert (root.context.trace_id, root.parent.span_id, root.parent.is_remote) == (7, 9, True)
    assert (part.context.trace_id, part.parent.span_id) == (7, root.context.span_id)
    assert (dict(root.attributes), dict(part.attributes)) == ({'instances': 1}, {'attempt': 1})
    assert part.end_time - part.start_time == pytest.approx(0.5e9, abs=1e3)
    assert [(event.name, dict(event.attributes)) for event in part.events] == [
        ('RamFilter', {'seen': 3, 'left': 2})
    ]
    assert root.status.is_ok
    assert root.resource.attributes['service.name'] == 'nova-sched-scheduler'


def test_a_failure(exported):
    made = trace()
    made.end(errors.NoValidHost('no host is left'))
    status = exported(made)['select_destinations'].status
    assert not status.is_ok
    assert 'no host is left' in status.description


def test_a_trace_without_a_caller_has_no_parent(exported):
    made = trace(None)
    made.end()
    assert exported(made)['select_destinations'].parent is None


def test_a_collector_that_fails_ends_nothing(caplog):
    export = trace_export.TraceExport(None, 'scheduler', 'control-1')
    made = trace()
    made.end()
    export.put(made)
    export.flush()
    assert 'Traces cannot be sent' in caplog.text


def test_at_the_end_the_last_ones_are_sent(monkeypatch):
    memory = InMemorySpanExporter()
    export = trace_export.TraceExport(sdk.BatchSpanProcessor(memory), 'scheduler', 'control-1')
    monkeypatch.setattr(trace_export.TRACER, 'sink', export.put)
    export.start()
    made = trace()
    made.end()
    export.put(made)
    export.end()
    assert [span.name for span in memory.get_finished_spans()] == ['select_destinations']
    assert trace_export.TRACER.sink is None


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes traces over OTLP: its server keeps the bodies of the requests."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.server.bodies.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_collector_gets_the_traces_of_a_process(monkeypatch):
    monkeypatch.setattr(trace_export.TRACER, 'share', 0.0)
    monkeypatch.setattr(trace_export.TRACER, 'sink', None)
    with http.server.HTTPServer(('127.0.0.1', 0), Collector) as server:
        server.bodies = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f'http://127.0.0.1:{server.server_port}/v1/traces'
        for name, value in (('enabled', True), ('sample', 1.0), ('endpoint', url)):
            CONF.set_override(name, value, 'tracing')
        try:
            end = trace_export.begin(CONF, 'scheduler')
            with trace_export.TRACER.traced('plan group', members=3):
                pass
            end()
        finally:
            for name in ('enabled', 'sample', 'endpoint'):
                CONF.clear_override(name, 'tracing')
            server.shutdown()
    ((path, body),) = server.bodies
    assert path == '/v1/traces'
    text = gzip.decompress(body) if body[:2] == GZIP else body
    assert b'plan group' in text
    assert b'nova-sched-scheduler' in text


def test_without_the_packages_the_option_is_refused(monkeypatch):
    CONF.set_override('enabled', True, 'tracing')
    try:
        trace_export.check(CONF)
        monkeypatch.setattr(trace_export, 'PACKAGES', ('no_such_package.sdk',))
        with pytest.raises(errors.BadConfig, match=r'no package no_such_package.*\[tracing\]'):
            trace_export.check(CONF)
    finally:
        CONF.clear_override('enabled', 'tracing')


def test_without_the_option_nothing_begins():
    trace_export.check(CONF)
    trace_export.begin(CONF, 'scheduler')()
    assert trace_export.TRACER.sink is None
