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
"""The progress of a simulation, and its summary: tables for users, a plain dict for scripts."""

import contextlib
import time

from rich import box
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.extensions.simulator.replay import use_by_zone

PLAIN_INTERVAL_S = 5.0
WORDS = 68  # columns reserved for the text next to the bar


@contextlib.contextmanager
def live(console, requests):
    """Yield the ``watch`` function of a replay of that many requests: a bar at a terminal, else a
    line now and then."""
    if console.is_terminal:
        columns = (
            TextColumn('trace [bold]{task.fields[face]:>5}[/] h'),
            BarColumn(bar_width=min(max(console.width - WORDS, 8), 40)),
            TextColumn('{task.completed:,}/{task.total:,}'),
            TextColumn('{task.fields[facts]}'),
        )
        with Progress(*columns, console=console) as progress:
            task = progress.add_task('', total=requests, face='0:00', facts='')
            yield lambda tally: progress.update(
                task, completed=tally.requests, face=_clock_face(tally), facts=_facts(tally)
            )
        return
    next_s = 0.0

    def watch(tally):
        nonlocal next_s
        if time.monotonic() < next_s and tally.requests < requests:
            return
        next_s = time.monotonic() + PLAIN_INTERVAL_S
        console.print(
            f'trace {_clock_face(tally):>5} h  {tally.requests:,}/{requests:,} requests  '
            f'{_facts(tally)}  {tally.took_s:.0f} s',
            highlight=False,
            soft_wrap=True,
        )

    yield watch


def _facts(tally):
    return f'placed {tally.placed:,} refused {tally.refused:,} running {tally.running:,}'


def _clock_face(tally):
    """Return hours and minutes of simulated time."""
    minutes = int(tally.now_s - tally.began_s) // 60
    return f'{minutes // 60}:{minutes % 60:02}'


BAR, BLOCKS, SPARKS = 20, ' ▏▎▍▌▋▊▉█', '▁▂▃▄▅▆▇█'


def announce(console, settings, machine, origin):
    """Print the plan of the simulation; ``origin`` is the source of the requests."""
    plan, shape = settings.plan, settings.plan.shape
    memory = (shape.memory_mb - shape.reserved_mb) / 1024
    console.print(
        f'Compute nodes: {plan.nodes:,} simulated, '
        f'of {shape.vcpus} vCPUs and {memory:g} GiB each, in '
        f'{_count(plan.zones, "zone")} of {_count(plan.racks, "rack")}.',
        highlight=False,
    )
    if machine is not None:
        (_, vcpus), (_, memory_mb), (_, disk_gb) = (
            machine.usage()[name] for name in (VCPU, MEMORY_MB, DISK_GB)
        )
        console.print(
            f'And this machine, {machine.host}, as its agent reads it: {vcpus} vCPUs, '
            f'{memory_mb / 1024:.1f} GiB of memory, {disk_gb} GiB of disk.',
            highlight=False,
        )
    console.print(
        f'Requests: {origin}. Zones are made up: {settings.zoned:.0%} of the batches require one.',
        highlight=False,
    )


def show(console, result):
    """Print the whole summary."""
    for part in (_outcome, _refusals, _speed, _zones, _hosts, _explained, _verdict):
        part(console, result)


def heading(console, text):
    console.print(f'\n[bold]{text}[/]', highlight=False)


def percentile(values, share):
    """Return the value below which that share (0..1) of the values lies; nan without values."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))] if ranked else float('nan')


def bar(share, width=BAR):
    """Return a bar of at most that many characters, in eighths of one; ``share`` is limited to
    0..1."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return (BLOCKS[-1] * (eighths // 8) + BLOCKS[eighths % 8].strip()).ljust(width)


def spark(shares):
    """Return one character for each share (0..1)."""
    return ''.join(
        SPARKS[min(int(max(share, 0.0) * len(SPARKS)), len(SPARKS) - 1)] for share in shares
    )


def _share(pair):
    used, capacity = pair
    return used / capacity if capacity else 0.0


def _table(*columns):
    """Return a light table; a column whose name starts with > is right-aligned."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style='dim')
    for name in columns:
        table.add_column(
            name.removeprefix('>'),
            justify='right' if name.startswith('>') else 'left',
            no_wrap=True,
        )
    return table


def _count(number, what):
    return f'{number:,} {what}{"" if number == 1 else "s"}'


def _outcome(console, result):
    tally = result.tally
    heading(console, f'{_count(tally.requests, "request")} for {_count(tally.servers, "server")}')
    table = _table('', '>servers', '', '>')
    for name, count, colour in (
        ('placed', tally.placed, 'green'),
        ('refused', tally.refused, 'yellow'),
        ('failed to build', tally.failed, 'red'),
    ):
        share = _share((count, tally.servers))
        table.add_row(name, f'{count:,}', Text(bar(share), colour), f'{share:.1%}')
    console.print(table)
    console.print(
        f'Of the placed: built on an alternate {tally.moved:,}, deleted since {tally.left:,}, '
        f'running {tally.running:,}.',
        highlight=False,
    )


def _refusals(console, result):
    if not result.tally.refusals:
        return
    heading(console, 'Why refused')
    table = _table(
        'rule that removed the last host', '>requests', '>servers', 'most often asked for'
    )
    for reason, refusal in sorted(
        result.tally.refusals.items(), key=lambda pair: -pair[1].servers
    ):
        (((flavor, zone), _),) = refusal.asked.most_common(1)
        table.add_row(
            reason,
            f'{refusal.requests:,}',
            f'{refusal.servers:,}',
            f'{flavor} in {zone or "any zone"}',
        )
    console.print(table)


# Name of the times, their description, and their location in a Result.
TIMES = (
    ('alone', 'engine, one at a time, until the claim is durable', 'alone_s'),
    ('decided', 'engine in the replay, filters and weighers alone', 'decided_s'),
    ('answered', 'engine in the replay, until the claims are durable', 'answered_s'),
    ('called', 'conductors in the replay, for select_destinations', 'latencies_s'),
)
PERCENTILES = (0.5, 0.95, 0.99)


def times(result):
    """Yield (name, description, seconds of each request) of everything that was timed."""
    for name, text, place in TIMES:
        if values := getattr(result.tally if name == 'called' else result, place):
            yield name, text, values


def _speed(console, result):
    tally, took_s = result.tally, max(result.tally.took_s, 1e-9)
    heading(
        console,
        f'How fast: {tally.requests / took_s:,.0f} requests, '
        f'{tally.placed / took_s:,.0f} servers a second',
    )
    table = _table('milliseconds a request', *(f'>p{share * 100:g}' for share in PERCENTILES))
    for _, text, values in times(result):
        table.add_row(text, *(f'{percentile(values, share) * 1000:,.2f}' for share in PERCENTILES))
    console.print(table)
    console.print(
        f'{_clock_face(tally)} h of the trace took {took_s:.1f} s, with '
        f'{result.reports:,} reports of nodes, and {result.settings.inflight} calls in flight.',
        highlight=False,
    )
    if result.embedded:
        note = 'One process was the whole cloud here, and its bus polls for messages every 50 ms.'
        console.print(note, style='dim')


def _zones(console, result):
    heading(console, 'How full, at the end')
    table = _table('zone', '>nodes', 'vCPUs', '>', 'memory', '>')
    counts = {}
    for node in result.nodes:
        counts[node.zone] = counts.get(node.zone, 0) + 1
    for zone, use in sorted(use_by_zone(result.nodes).items()):
        cells = [zone, str(counts[zone])]
        for name in (VCPU, MEMORY_MB):
            share = _share(use[name])
            cells += [Text(bar(share), 'cyan'), f'{share:.0%}']
        table.add_row(*cells)
    console.print(table)
    totals = [
        _share(map(sum, zip(*(use[VCPU] for use in zones.values()), strict=True)))
        for _, zones in result.tally.history
    ]
    console.print(f'vCPUs in use over time: {spark(totals)}', highlight=False)


def _hosts(console, result):
    ranked = sorted(
        (node for node in result.nodes if not node.disabled),
        key=lambda node: (-_share(node.usage()[VCPU]), node.host),
    )
    ends = (0, 1, 2, len(ranked) - 3, len(ranked) - 2, len(ranked) - 1)
    shown = [node for place, node in enumerate(ranked) if place in ends or node is result.machine]
    heading(console, 'Fullest and emptiest hosts')
    table = _table('host', 'rack', '>servers', '>vCPUs', '>memory, GiB')
    for node in shown:
        (vcpus, most_vcpus), (memory, most_memory) = (
            node.usage()[name] for name in (VCPU, MEMORY_MB)
        )
        table.add_row(
            node.host + (' (this machine)' if node is result.machine else ''),
            node.rack,
            str(len(node.instances)),
            f'{vcpus} of {most_vcpus}',
            f'{memory / 1024:.0f} of {most_memory / 1024:.0f}',
        )
    console.print(table)


def _explained(console, result):
    explained = result.explained
    if explained is None:
        return
    heading(console, 'One refusal, filter by filter')
    console.print(f'Asked for: {explained.asked}.', highlight=False)
    table = _table('filter', '>hosts seen', '>removed', '>left', '')
    for name, seen, left in explained.steps:
        share = _share((left, explained.steps[0][1]))
        removed, style = (str(seen - left), 'bold') if left < seen else ('', 'dim')
        table.add_row(name, str(seen), removed, str(left), Text(bar(share), 'cyan'), style=style)
    console.print(table)
    console.print(f'Answer: {explained.reason}', highlight=False)


def _verdict(console, result):
    if result.violations:
        heading(console, f'[red]Checked afterwards: {_count(len(result.violations), "violation")}')
        for violation in result.violations[:10]:
            console.print(f'  {violation}', style='red', highlight=False, markup=False)
        return
    where = 'in the database' if result.embedded else "with the scheduler's answers to its nodes"
    running = _count(result.tally.running, 'running server')
    heading(
        console,
        f'[green]Checked {where}: no node over its capacity, one claim for each of {running}.',
    )


def as_dict(result):
    """Return plain values for scripts: times in seconds, memory in MiB."""
    tally, explained = result.tally, result.explained
    names = ('requests', 'servers', 'placed', 'refused', 'failed', 'moved', 'left', 'running')
    return {
        **{name: getattr(tally, name) for name in names},
        'nodes': len(result.nodes),
        'conflicts': result.conflicts,
        'reports': result.reports,
        'claims': result.claims,
        'simulated_s': tally.now_s - tally.began_s,
        'took_s': tally.took_s,
        'refusals': {
            reason: {'requests': refusal.requests, 'servers': refusal.servers}
            for reason, refusal in tally.refusals.items()
        },
        'times_s': {
            name: {f'p{share * 100:g}': percentile(values, share) for share in PERCENTILES}
            for name, _, values in times(result)
        },
        'zones': {
            zone: {
                name: {'used': used, 'capacity': capacity}
                for name, (used, capacity) in use.items()
            }
            for zone, use in use_by_zone(result.nodes).items()
        },
        'explained': explained
        and {
            'asked': explained.asked,
            'reason': explained.reason,
            'trail': [
                {'filter': name, 'seen': seen, 'left': left}
                for name, seen, left in explained.steps
            ],
        },
        'violations': result.violations,
    }
