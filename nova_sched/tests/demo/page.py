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
"""The report of a demonstration: one HTML file with inline SVG, drawn from plain data."""

import dataclasses
import xml.etree.ElementTree as ET

from nova_sched.extensions.simulator.report import percentile
from nova_sched.tests.svg import WIDTH, element, svg, text

STYLE = (
    'body {font: 15px sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em}'
    ' td, th {text-align: left; padding: .3em 1em .3em 0; vertical-align: top}'
    ' pre {overflow: auto; background: #f4f4f4; padding: 1em}'
)
FREE, FULL = (232, 240, 247), (8, 64, 129)  # colours of a host that is empty, and of a full one
BLUE = '#2171b5'
LINE, LABEL = 22, 150
BINS, HEIGHT = 40, 160


@dataclasses.dataclass(frozen=True, slots=True)
class DemoResult:
    """What a demonstration has measured.

    ``steps`` are (heading, sentence). ``racks`` maps each rack to its hosts, and each host to the
    shares (0..1) of its vCPUs that were in use before and after. ``funnel`` has (rule, hosts seen,
    hosts left) of the refusal of ``asked``. ``tree`` is text.
    """

    steps: list[tuple[str, str]]
    racks: dict[str, dict[str, tuple[float, float]]]
    asked: str
    reason: str
    funnel: list[tuple[str, int, int]]
    latencies_s: list[float]
    tree: str


def page(result):
    """Return the report as HTML, which is well-formed XML too."""
    head = element('head', {}, element('title', {}, 'nova_sched'), element('style', {}, STYLE))
    rows = (
        element('tr', {}, element('th', {}, heading), element('td', {}, sentence))
        for heading, sentence in result.steps
    )
    body = element(
        'body',
        {},
        element('h1', {}, 'nova_sched: a demonstration'),
        element('table', {}, *rows),
        element('h2', {}, 'vCPUs in use, before and after the race, the group and the jobs'),
        heat_maps(result.racks),
        element('h2', {}, f'Refused: {result.asked}'),
        element('p', {}, result.reason),
        funnel(result.funnel),
        element('h2', {}, 'Time that a conductor waited for select_destinations'),
        histogram(result.latencies_s),
        element('h2', {}, 'A nested group'),
        element('pre', {}, result.tree),
    )
    # ASCII with character references, so that no reader has to know an encoding.
    written = ET.tostring(element('html', {'lang': 'en'}, head, body), short_empty_elements=False)
    return f'<!DOCTYPE html>\n{written.decode()}\n'


def picture(result):
    """Return the three plots as one SVG document."""
    plots = [heat_maps(result.racks), funnel(result.funnel), histogram(result.latencies_s)]
    top = 0
    for plot in plots:
        plot.set('y', str(top))
        top += int(plot.get('height')) + LINE
    whole = svg(top, element('rect', {'width': WIDTH, 'height': top, 'fill': 'white'}), *plots)
    return f'{ET.tostring(whole).decode()}\n'


def heat_maps(racks):
    """One row for each rack, one square for each host; before on the left, after on the right."""
    half = (WIDTH - LABEL) // 2
    side = min(2 * LINE, (half - LINE) // max(map(len, racks.values()), default=1))
    parts = [
        text(LABEL, 14, 'before (light: free, dark: in use)'),
        text(LABEL + half, 14, 'after'),
    ]
    for row, (rack, hosts) in enumerate(racks.items(), 1):
        parts.append(text(0, row * LINE + 14, rack))
        for column, (host, shares) in enumerate(hosts.items()):
            for place, share in enumerate(shares):
                square = {
                    'x': LABEL + place * half + column * side,
                    'y': row * LINE,
                    'width': side - 2,
                    'height': LINE - 4,
                    'fill': colour(share),
                }
                title = element('title', {}, f'{host}: {share:.0%}')
                parts.append(element('rect', square, title))
    return svg((len(racks) + 1) * LINE, *parts)


def colour(share):
    """Return the colour of a share, from 0 (light) to 1 (dark)."""
    within = min(max(share, 0.0), 1.0)
    mixed = (round(free + (full - free) * within) for free, full in zip(FREE, FULL, strict=True))
    return f'#{"".join(f"{part:02x}" for part in mixed)}'


def funnel(steps):
    """One bar for each rule: the hosts that it left, of those that it saw."""
    left_px, most = LABEL + 50, max((seen for _, seen, _ in steps), default=1)
    parts = []
    for row, (rule, seen, left) in enumerate(steps):
        y = row * LINE
        scale = (WIDTH - left_px - 60) / most
        parts += [
            text(0, y + 14, rule),
            _bar(left_px, y, seen * scale, '#deebf7'),
            _bar(left_px, y, left * scale, BLUE),
            text(left_px + seen * scale + 6, y + 14, f'{seen} → {left}'),
        ]
    return svg(max(len(steps), 1) * LINE, *parts)


def histogram(latencies_s):
    """The number of calls by their time; the slowest one in a hundred share the last column."""
    if not latencies_s:
        return svg(LINE, text(0, 14, 'no calls'))
    p50, p99 = (percentile(latencies_s, share) for share in (0.5, 0.99))
    counts = [0] * (BINS + 1)
    for latency_s in latencies_s:
        counts[min(int(latency_s / (p99 or 1) * BINS), BINS)] += 1
    wide = WIDTH / len(counts)
    parts = []
    for place, count in enumerate(counts):
        tall = round(count / max(counts) * HEIGHT, 1)
        bar = {'x': round(place * wide, 1), 'y': HEIGHT - tall, 'width': round(wide - 2, 1)}
        title = element('title', {}, f'{count} calls')
        parts.append(element('rect', {**bar, 'height': tall, 'fill': BLUE}, title))
    words = f'{len(latencies_s)} calls; p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms'
    parts += [
        text(0, HEIGHT + 16, '0'),
        text(WIDTH * 0.3, HEIGHT + 16, words),
        text(WIDTH - 130, HEIGHT + 16, f'over {p99 * 1000:.0f} ms'),
    ]
    return svg(HEIGHT + LINE, *parts)


def _bar(x, y, width, fill):
    shape = {'x': x, 'y': y, 'width': round(width, 1), 'height': LINE - 4, 'fill': fill}
    return element('rect', shape)
