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
"""Sends traces that have ended to a collector of OpenTelemetry, in threads of its own."""

import importlib.util
import logging
import os
import threading
import time

from nova_sched import errors
from nova_sched.engine.explain.decision_log import Outbox
from nova_sched.tracing import TRACER, new_id

LOG = logging.getLogger(__name__)

GATHER_S = 0.5  # traces within this time are translated together
WAITING, BATCH = 500, 100  # traces
END_S = 2.0
PACKAGES = 'opentelemetry.sdk', 'opentelemetry.exporter.otlp.proto.http'


class TraceExport(Outbox):
    """Makes OpenTelemetry's spans of traces, and passes them to a span processor of its SDK.

    Of more traces than ``waiting``, and of those that the collector does not take, nothing is
    kept.
    """

    def __init__(self, processor, daemon, host, waiting=WAITING):
        super().__init__('nova-sched-traces', GATHER_S, waiting, BATCH)
        from opentelemetry.sdk.resources import Resource

        self._processor = processor
        self._resource = Resource.create(
            {
                'service.name': f'nova-sched-{daemon}',
                'host.name': host,
                'process.pid': os.getpid(),
            }
        )

    def end(self):
        """Send what is left, for a moment at most: a collector that does not answer delays no
        end."""
        TRACER.sink = None
        self.stop(END_S)
        rest = threading.Thread(target=self._processor.force_flush, daemon=True)
        rest.start()
        rest.join(END_S)

    def _pass_on(self, batch):
        try:
            for trace in batch:
                for span in self._spans(trace):
                    self._processor.on_end(span)
        except Exception:
            LOG.exception('Traces cannot be sent')

    def _spans(self, trace):
        """The root span of a trace, and its parts."""
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import (
            SpanContext,
            SpanKind,
            Status,
            StatusCode,
            TraceFlags,
            TraceState,
        )

        # The clock of this machine may be set at any time; within a trace, times are in order.
        offset_s = time.time() - time.perf_counter()
        flags = TraceFlags(TraceFlags.SAMPLED)

        def at(seconds):
            return int((offset_s + seconds) * 1e9)

        def context(span_id, is_remote=False):
            return SpanContext(trace.trace_id, span_id, is_remote, flags, TraceState())

        def event(span_event, at_ns):
            facts = span_event._asdict()
            return Event(facts.pop('name'), facts, at_ns)

        parent = trace.parent and context(trace.parent.span_id, is_remote=True)
        status = Status(StatusCode.ERROR, trace.failure) if trace.failure else Status()
        yield ReadableSpan(
            trace.name,
            context(trace.span_id),
            parent,
            self._resource,
            attributes=trace.attributes,
            kind=SpanKind.SERVER,
            status=status,
            start_time=at(trace.begin_s),
            end_time=at(trace.end_s),
        )
        for span in trace.spans:
            yield ReadableSpan(
                span.name,
                context(new_id(64)),
                context(trace.span_id),
                self._resource,
                attributes=span.attributes,
                events=[event(span_event, at(span.end_s)) for span_event in span.events],
                start_time=at(span.begin_s),
                end_time=at(span.end_s),
            )


def check(conf):
    """Check that the packages are installed, if traces are wanted. Raises BadConfig."""
    if conf.tracing.enabled:
        try:
            missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        except ModuleNotFoundError as error:
            missing = [error.name]
        if missing:
            why = f'there is no package {missing[0]}; install nova-sched[tracing]'
            raise errors.BadConfig('[tracing] enabled', why)


def begin(conf, daemon):
    """Send the traces of this process, if they are wanted. Called after the fork.

    Return a function that sends the last ones, when the process ends.
    """
    if not conf.tracing.enabled:
        return lambda: None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=conf.tracing.endpoint))
    export = TraceExport(processor, daemon, conf.host)
    export.start()
    TRACER.share, TRACER.sink = conf.tracing.sample, export.put
    LOG.info('Traces go to %s', conf.tracing.endpoint)
    return export.end
