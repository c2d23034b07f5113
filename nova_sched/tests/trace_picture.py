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

"""The picture of a traced boot in the manual: ``python -m nova_sched.tests.trace_picture FILE``.

A conductor's calls go over a RabbitMQ of their own, or without one over a bus in this process. The
fastest one is drawn: the machine may have other work.
"""

import contextlib
import pathlib
import sys
import tempfile
import uuid
import xml.etree.ElementTree as ET

from nova_sched import rpc, service
from nova_sched.conf import CONF
from nova_sched.extensions.simulator import conductor
from nova_sched.extensions.simulator.machines import Plan, machines
from nova_sched.extensions.simulator.simulated_hosts import CallPool, SimulatedHosts
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc.client import SchedulerClient
from nova_sched.tests.options import settings
from nova_sched.tests.svg import WIDTH, element, svg, text
from nova_sched.tracing import TRACER

CALL = 'call of the conductor'  # its own span
HOSTS, CALLS, ALTERNATES = 1000, 41, 2
LINE, LABEL, ROOM = 22, 200, 90  # pixels: a row, the names, the times behind the bars
COLOURS = ('#9aa5b1', '#08519c', '#2171b5')  # by depth
SMALL = LINE - 8


def main():
    from nova_sched.tests.demo.cloud import private_bus

    CONF([], project='nova_sched', default_config_files=[], default_config_dirs=[])
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        found = boots(home, private_bus(stack) or 'fake://', HOSTS, CALLS)
    pathlib.Path(sys.argv[1]).write_text(picture(min(found, key=_took_ns)), 'utf-8')


def boots(folder, bus_url, hosts, calls):
    """The spans of each of several boots, as the exporter sends them."""
    where = {
        'default.transport_url': bus_url,
        'default.service_down_time': 3600,
        'database.connection': f'sqlite:///{folder}/traced.sqlite',
        'scheduler.max_attempts': ALTERNATES + 1,
    }
    with contextlib.ExitStack() as stack:
        bus = rpc.transport(CONF, bus_url)  # it registers the option of its URL
        stack.callback(bus.cleanup)
        stack.enter_context(settings(where))
        scheduler = service.SchedulerService(CONF, bus)
        stack.callback(scheduler.stop)
        scheduler.start()
        pool = stack.enter_context(CallPool(8))
        SimulatedHosts(machines(Plan(nodes=hosts)), bus, pool).join()
        client = SchedulerClient(bus)
        return [_boot(client) for _ in range(calls)]


def _boot(client):
    """One boot of a server. Returns its spans in the order of their begins."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from nova_sched.cmd.trace_export import TraceExport

    memory = InMemorySpanExporter()
    export = TraceExport(SimpleSpanProcessor(memory), 'scheduler', CONF.host)
    servers = [str(uuid.uuid4())]
    asked = conductor.spec(TraceFlavor('m1.small', 2, 4096), servers, 'zone-2')
    TRACER.share, TRACER.sink = 1.0, export.put
    try:
        with TRACER.traced(CALL):
            ((_, *alternates),) = client.select_destinations(asked, servers)
    finally:
        TRACER.share, TRACER.sink = 0.0, None
    assert len(alternates) == ALTERNATES
    export.flush()
    return sorted(memory.get_finished_spans(), key=lambda span: (span.start_time, -span.end_time))


def _took_ns(spans):
    return spans[0].end_time - spans[0].start_time


def rows(spans):
    """The spans as (depth, span), each after the one that it is a part of."""
    parts = {}
    for span in spans:
        parts.setdefault(span.parent.span_id if span.parent else None, []).append(span)

    def below(parent, depth):
        for span in parts.get(parent, ()):
            yield depth, span
            yield from below(span.context.span_id, depth + 1)

    return list(below(None, 0))


def names(spans):
    """What a picture has: for each row the depth, the name, and the names of events."""
    return [(depth, span.name, [one.name for one in span.events]) for depth, span in rows(spans)]


def drawn(document):
    """The same, read from a picture."""
    space = '{http://www.w3.org/2000/svg}'
    found = []
    for group in ET.fromstring(document).iter(f'{space}g'):
        name, *events = [one.text for one in group.iter(f'{space}text') if one.get('class')]
        found.append((int(group.get('class').removeprefix('depth-')), name, events))
    return found


def picture(spans):
    """A row for each span, with its time in milliseconds, and below it one for each event."""
    first, *_ = spans
    scale = (WIDTH - LABEL - ROOM) / _took_ns(spans)

    def x(moment):
        return round(LABEL + (moment - first.start_time) * scale, 1)

    parts, y = [], 0
    for depth, span in rows(spans):
        wide = max(x(span.end_time) - x(span.start_time), 1)
        bar = {'x': x(span.start_time), 'y': y + 4, 'width': round(wide, 1), 'height': SMALL}
        took = f'{(span.end_time - span.start_time) / 1e6:.2f} ms'
        lines = [
            text(8 + 14 * depth, y + 16, span.name, **{'class': 'span'}),
            element('rect', {**bar, 'fill': COLOURS[depth]}),
            text(x(span.end_time) + 6, y + 16, took),
        ]
        for event in span.events:
            y += LINE
            facts = event.attributes
            lines += [
                text(8 + 14 * (depth + 1), y + 16, event.name, fill='#555', **{'class': 'event'}),
                element('circle', {'cx': x(event.timestamp), 'cy': y + 11, 'r': 3}),
                text(x(event.timestamp) + 8, y + 16, f'{facts["seen"]} → {facts["left"]} hosts'),
            ]
        parts.append(element('g', {'class': f'depth-{depth}'}, *lines))
        y += LINE
    ground = element('rect', {'width': WIDTH, 'height': y, 'fill': 'white'})
    return f'{ET.tostring(svg(y, ground, *parts)).decode()}\n'


if __name__ == '__main__':
    main()
