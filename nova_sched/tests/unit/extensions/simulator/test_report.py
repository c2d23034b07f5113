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
"""Tests of the summary, and of the progress that is shown before it."""

import io
import json
import math

from rich.console import Console

from nova_sched.extensions.simulator import report
from nova_sched.extensions.simulator.replay import Refusal, ReplayTally
from nova_sched.extensions.simulator.session import Explained, SimulationSettings
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.extensions.simulator.builders import SMALL, node, plan, result

EXPLAINED = Explained('the moon', 'Nobody has it.', (('First', 9, 4), ('Second', 4, 0)))


def console(**options):
    return Console(file=io.StringIO(), width=120, **options)


def shown(made, part=report.show):
    """What people see, with runs of spaces as one."""
    screen = console()
    part(screen, made)
    return [' '.join(line.split()) for line in screen.file.getvalue().splitlines() if line.strip()]


@table(
    'share, text',
    {
        'empty': (0.0, '    '),
        'full': (1.0, '████'),
        'half': (0.5, '██  '),
        'the smallest step': (1 / 32, '▏   '),
        'between': (0.6, '██▍ '),
        'too much': (1.7, '████'),
        'too little': (-0.2, '    '),
    },
)
def test_bars(share, text):
    assert report.bar(share, width=4) == text


@table(
    'shares, text',
    {
        'nothing': ([], ''),
        'low, middle, high': ([0.0, 0.5, 1.0], '▁▅█'),
        'outside': ([-1.0, 2.0], '▁█'),
    },
)
def test_sparks(shares, text):
    assert report.spark(shares) == text


@table(
    'values, share, found',
    {
        'one value': ([5.0], 0.99, 5.0),
        'the middle one': ([3.0, 1.0, 2.0], 0.5, 2.0),
        '95 are below': (range(100), 0.95, 95),
        'the greatest': ([1, 2], 1.0, 2),
    },
)
def test_percentiles(values, share, found):
    assert report.percentile(values, share) == found


def test_no_values_have_no_percentile():
    assert math.isnan(report.percentile([], 0.5))


@table(
    'fields, lines',
    {
        'one server': (
            {'requests': 1, 'servers': 1, 'placed': 1},
            ['1 request for 1 server', f'placed 1 {"█" * 20} 100.0%'],
        ),
        'thousands': (
            {
                'requests': 2000,
                'servers': 4000,
                'placed': 3000,
                'refused': 900,
                'failed': 100,
                'left': 1000,
                'moved': 7,
            },
            [
                '2,000 requests for 4,000 servers',
                f'placed 3,000 {"█" * 15} 75.0%',
                f'refused 900 {"█" * 4}▌ 22.5%',
                'failed to build 100 ▌ 2.5%',
                'Of the placed: built on an alternate 7, deleted since 1,000, running 2,000.',
            ],
        ),
        'refusals, the most servers first': (
            {'refusals': {'RamFilter': Refusal(2, 9), 'CoreFilter': Refusal(1, 30)}},
            [
                'CoreFilter 1 30 1 vCPU, 1 GiB in any zone',
                'RamFilter 2 9 1 vCPU, 1 GiB in any zone',
            ],
        ),
        'rates': (
            {
                'took_s': 2.0,
                'requests': 300,
                'placed': 500,
                'began_s': 600.0,
                'now_s': 7800.0,
                'reports': 40,
            },
            [
                'How fast: 150 requests, 250 servers a second',
                (
                    '2:00 h of the trace took 2.0 s, with 40 reports of nodes, '
                    'and 32 calls in flight.'
                ),
            ],
        ),
        'latency in milliseconds': (
            {'latencies_s': [0.001, 0.002, 0.5]},
            ['conductors in the replay, for select_destinations 2.00 500.00 500.00'],
        ),
        "the engine's own times": (
            {'alone_s': [0.0015], 'embedded': True},
            ['engine, one at a time, until the claim is durable 1.50 1.50 1.50'],
        ),
        'a refusal, filter by filter': (
            {'explained': EXPLAINED},
            [
                'Asked for: the moon.',
                f'First 9 5 4 {"█" * 8}▉',
                'Second 4 4 0',
                'Answer: Nobody has it.',
            ],
        ),
        'all is well': (
            {'placed': 2, 'embedded': True},
            [
                (
                    'Checked in the database: no node over its capacity, '
                    'one claim for each of 2 running servers.'
                )
            ],
        ),
        'a violation': (
            {'violations': ['host [x] is over']},
            ['Checked afterwards: 1 violation', 'host [x] is over'],
        ),
    },
)
def test_the_summary_says(fields, lines):
    for refusal in fields.get('refusals', {}).values():
        refusal.asked[SMALL, None] += 1
    text = shown(result(**fields))
    assert [line for line in lines if line not in text] == []


def test_the_summary_shows_zones_and_hosts():
    nodes = [node(*'abcdef'[:count], vcpus=8) for count in (2, 6)]
    nodes[1].zone, nodes[1].host = 'zone-2', 'other'
    text = shown(result(nodes, machine=nodes[1]))
    assert f'zone-1 1 {"█" * 5} 25% {"█" * 2}▌ 12%' in text
    assert f'zone-2 1 {"█" * 15} 75% {"█" * 7}▌ 38%' in text
    fullest, emptiest = (place for place, line in enumerate(text) if ' of 8 ' in line)
    assert text[fullest].startswith('other (this machine) zone-1-rack-1 6 6 of 8 6 of 16')
    assert text[emptiest].startswith(f'{nodes[0].host} zone-1-rack-1 2 2 of 8 2 of 16')


def test_a_disabled_host_is_not_among_the_emptiest():
    nodes = [node('a'), node()]
    nodes[1].disabled, nodes[1].host = True, 'other'
    assert not [line for line in shown(result(nodes)) if 'other' in line]


def test_of_many_hosts_the_ends_and_this_machine_are_shown():
    nodes = [node(*map(str, range(count)), vcpus=16) for count in range(10)]
    for place, one in enumerate(nodes):
        one.host = f'host-{place}'
    text = shown(result(nodes, machine=nodes[5]))
    assert [line.split()[0] for line in text if ' of 16 ' in line] == [
        f'host-{place}' for place in (9, 8, 7, 5, 2, 1, 0)
    ]


@table(
    'machine, lines',
    {'simulated nodes only': (None, 2), 'with this machine': (node(vcpus=6, memory_gib=10), 3)},
)
def test_what_is_about_to_happen(machine, lines):
    screen = console()
    settings = SimulationSettings(
        plan(nodes=1200, zones=3, racks=4, vcpus=8, memory_gib=16), zoned=0.25
    )
    report.announce(screen, settings, machine, 'a trace')
    text = screen.file.getvalue().splitlines()
    assert (
        text[0]
        == 'Compute nodes: 1,200 simulated, of 8 vCPUs and 16 GiB each, in 3 zones of 4 racks.'
    )
    assert text[-1] == 'Requests: a trace. Zones are made up: 25% of the batches require one.'
    assert len(text) == lines
    assert machine is None or '6 vCPUs, 10.0 GiB of memory, 2000 GiB of disk' in text[1]


def test_scripts_get_plain_values():
    made = result(
        requests=2,
        servers=5,
        placed=2,
        refused=3,
        refusals={'RamFilter': Refusal(1, 3)},
        latencies_s=[0.25, 0.25],
        explained=EXPLAINED,
        violations=['one'],
    )
    found = json.loads(json.dumps(report.as_dict(made), allow_nan=False))
    assert {
        name: found[name] for name in ('requests', 'servers', 'placed', 'refused', 'running')
    } == {'requests': 2, 'servers': 5, 'placed': 2, 'refused': 3, 'running': 2}
    assert found['refusals'] == {'RamFilter': {'requests': 1, 'servers': 3}}
    assert found['times_s'] == {'called': {'p50': 0.25, 'p95': 0.25, 'p99': 0.25}}
    assert found['zones']['zone-1']['VCPU'] == {'used': 2, 'capacity': 8}
    assert found['explained']['trail'][1] == {'filter': 'Second', 'seen': 4, 'left': 0}
    assert found['violations'] == ['one']


def tally(requests, now_s=0.0):
    return ReplayTally(requests=requests, placed=1234, refused=5, left=34, now_s=now_s, took_s=6.4)


def test_progress_without_a_terminal_is_a_line_now_and_then():
    screen = console()
    with report.live(screen, 40) as watch:
        for done in range(1, 41):
            watch(tally(done, now_s=60.0 * done))
    first, last = screen.file.getvalue().splitlines()
    assert (
        first.split()
        == 'trace 0:01 h 1/40 requests placed 1,234 refused 5 running 1,200 6 s'.split()
    )
    assert (
        last.split()
        == 'trace 0:40 h 40/40 requests placed 1,234 refused 5 running 1,200 6 s'.split()
    )


@each('width', [80, 120])
def test_progress_at_a_terminal_is_a_bar(width):
    screen = Console(file=io.StringIO(), width=width, force_terminal=True)
    with report.live(screen, 4000) as watch:
        watch(ReplayTally(requests=4000, placed=12345, refused=1234, left=3333, now_s=3660.0))
    text = screen.file.getvalue()
    assert text.count('\n') == 1
    assert '4,000/4,000' in text
    assert '1:01' in text
    assert 'placed 12,345 refused 1,234 running 9,012' in text
