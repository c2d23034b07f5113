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
"""The figures of a run of either model, as a table and for scripts."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.table import Table

from nova_sched.sim.models.comparison import QUEUES, SCHEDULER, ComparisonSettings
from nova_sched.sim.models.tally import PARTS, ModelTally, Sample
from nova_sched.sim.report import percentile

BEST, GOOD = 0.01, 0.1  # shares of the hosts that count as the best and as good
PERCENTILES = (0.5, 0.95, 0.99)
# share of the vCPUs in use: with free capacity left, its distribution shows how well the nodes are
# packed
HALF = 0.7
COUNTS = (
    'asked placed refused failed left by_rule asked_vcpus placed_vcpus put_backs lost_claims '
    'fallbacks expired rescued failed_builds memory_mib took_s'
).split()


def figures(model: str, tally: ModelTally) -> dict[str, Any]:
    """Returns plain values; times in seconds, memory in MiB, shares from 0 to 1. NaN: no data."""
    placed = max(tally.placed, 1)
    found: dict[str, Any] = {name: getattr(tally, name) for name in COUNTS}
    found['wait_s'] = {
        f'p{share * 100:g}': percentile(tally.waits_s, share) for share in PERCENTILES
    }
    found['run_s'] = {
        f'p{share * 100:g}': percentile(tally.runs_s, share) for share in PERCENTILES
    }
    found['first_refusal'] = _plain(tally.first_refusal)
    found['at_70_percent'] = _plain(
        next((one for one in tally.samples if one.vcpus >= HALF), None)
    )
    found['at_the_fullest'] = _plain(max(tally.samples, key=lambda one: one.vcpus, default=None))
    found['at_the_end'] = _plain(tally.samples[-1] if tally.samples else None)
    found['messages_per_server'] = {
        'all': tally.messages / placed,
        'rpc': 2 * sum(tally.calls.values()) / placed,
        'reports': 2 * tally.reports / placed,
        'casts': tally.casts / placed,
        'jobs': tally.wire['publish'] / placed,
    }
    found['calls'] = dict(tally.calls)
    found['statements_per_server'] = {
        word: count / placed for word, count in tally.statements.items()
    }
    found['refusals'] = dict(tally.reasons)
    found['violations'] = tally.violations
    found['cpu_ms_per_server'] = {
        name: 1000 * tally.meter.seconds[name] / placed for name in PARTS
    }
    return found | (_of_queues(tally, placed) if model == QUEUES else {})


def _of_queues(tally: ModelTally, placed: int) -> dict[str, Any]:
    return {
        'queues': tally.queues,
        'rank': {
            'mean': tally.mean_rank,
            'best': tally.rank_share(BEST),
            'good': tally.rank_share(GOOD),
            'servers': len(tally.ranks),
        },
        'wire_per_server': {name: count / placed for name, count in tally.wire.items()},
        'jobs_by_queue': dict(tally.kinds),
        'changes_per_server': tally.changes / placed,
        'evaluations_per_server': tally.evaluations / placed,
        'first_subscriptions': tally.first_subscriptions,
        'start_s': tally.start_s,
    }


def _plain(found: Sample | None) -> dict[str, Any] | None:
    return None if found is None else dataclasses.asdict(found)


def rows(model: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Returns the displayed figures: a text and a value each."""
    yield 'servers asked for', f'{found["asked"]:,}'
    yield 'placed', f'{found["placed"]:,} ({found["placed"] / max(found["asked"], 1):.1%})'
    yield 'refused', f'{found["refused"]:,}'
    yield 'built nowhere', f'{found["failed"]:,}'
    yield (
        'vCPUs placed, of those asked for',
        f'{found["placed_vcpus"] / max(found["asked_vcpus"], 1):.1%}',
    )
    for name, text in (
        ('at_70_percent', 'at 70 % of the vCPUs'),
        ('first_refusal', 'at the first refusal'),
        ('at_the_fullest', 'at the fullest'),
    ):
        if one := found[name]:
            told = (
                f'{one["vcpus"]:.1%} vCPUs, {one["memory"]:.1%} memory, '
                f'{one["nodes_in_use"]:,} nodes'
            )
            yield text, f'{told}, {one["room"]:,} more of the large flavor'
    for name, text in (('wait_s', 'it is claimed'), ('run_s', 'it runs')):
        yield (
            f'simulated seconds until {text}',
            ', '.join(f'{n} {s:.3f}' for n, s in found[name].items()),
        )
    sent = found['messages_per_server']
    yield (
        'messages per placed server',
        f'{sent["all"]:.1f} (jobs {sent["jobs"]:.1f}, RPC {sent["rpc"]:.1f})',
    )
    if model == QUEUES:
        yield from _rows_of_queues(found)
    if statements := found['statements_per_server']:
        texts = (f'{word} {count:.1f}' for word, count in sorted(statements.items()))
        yield 'SQL statements per placed server', ', '.join(texts)
    costs = (f'{name} {ms:.2f}' for name, ms in found['cpu_ms_per_server'].items() if ms)
    yield 'processor, ms per placed server', ', '.join(costs)
    yield (
        'processor in all, peak of memory',
        f'{found["took_s"]:.0f} s, {found["memory_mib"]:,} MiB',
    )


def _rows_of_queues(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    rank, wire = found['rank'], found['wire_per_server']
    yield 'queues', f'{found["queues"]:,}'
    told = f'{rank["mean"]:.1%} of the hosts were better; in the best 1 % {rank["best"]:.1%}'
    yield 'choice of the broker', f'{told}, in the best 10 % {rank["good"]:.1%}'
    yield 'put back, by a lost claim', f'{found["put_backs"]:,}, {found["lost_claims"]:,}'
    told = f'{found["fallbacks"]:,}, {found["expired"]:,}, {found["rescued"]:,}'
    yield 'fallback: jobs, expired, placed then', told
    yield 'asked of the scheduler by rule', f'{found["by_rule"]:,}'
    yield 'subscription changes per server', f'{found["changes_per_server"]:.1f}'
    yield (
        'consume, cancel per server',
        f'{wire.get("consume", 0):.1f}, {wire.get("cancel", 0):.1f}',
    )
    start = f'{found["first_subscriptions"]:,} subscriptions in {found["start_s"]:.1f} s'
    yield 'start of all workers', start


def show(
    console: Any, settings: ComparisonSettings, results: Mapping[str, Mapping[str, Any]]
) -> None:
    """Prints the models one after the other."""
    plan = settings.plan
    console.print(
        f'{plan.nodes:,} nodes of {plan.shape.vcpus} vCPUs; '
        f'demand up to {settings.fullness:.0%} of them, '
        f'{settings.prefill:.0%} in use at the start; {settings.steps} steps of priority.',
        highlight=False,
    )
    for model, found in results.items():
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style='dim')
        table.add_column({QUEUES: 'by queues', SCHEDULER: 'by the scheduler'}[model], no_wrap=True)
        table.add_column('')
        for text, value in rows(model, found):
            table.add_row(text, value)
        console.print(table)
        for violation in found['violations'][:10]:
            console.print(f'  {violation}', style='red', highlight=False, markup=False)
        console.print()
