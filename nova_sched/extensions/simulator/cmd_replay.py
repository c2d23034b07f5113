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
"""nova-sched-sim replay: public data sets through the engine, by several policies; and the types
of numbers on the command lines of nova-sched-sim."""

import argparse
import concurrent.futures
import contextlib
import functools
import json
import logging
import math
import multiprocessing
import os

from nova_sched.cmd import backend

DESCRIPTION = """
Places the servers of a public data set on its hosts, through the engine and its claims, once for
each policy and seed, and shows the policies next to each other. Nothing is built, and the time of
the trace is simulated.
"""
EPILOG = """
policies: NAME=FILE takes the options of a configuration file; these need none:
  nova           the default weighers and multipliers
  first-fit      all multipliers 0: the first host
  best-fit       ram_weight_multiplier and cpu_weight_multiplier -1, all others 0
  fragmentation  fragmentation_weight_multiplier 1, all others 0
  keep-empty     the same with keep_empty
  exit-time      the same with exit_time_weight_multiplier 0.1; azure tells the ends

exit status: 0 success, 1 it cannot run, 2 wrong usage, 130 interrupted
"""
POLICIES = ['nova', 'best-fit', 'fragmentation']


def amount(text):
    """A number above 0."""
    with contextlib.suppress(ValueError):
        if 0.0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f'{text} is not a number above 0')


def number(least):
    """The type of whole numbers from ``least``."""

    def read(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f'{text} is not a whole number from {least} on')
        return int(text)

    return read


def share(text):
    """A number from 0 to 1."""
    with contextlib.suppress(ValueError):
        if 0.0 <= float(text) <= 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f'{text} is not a number from 0 to 1')


def span(text):
    """The type of ``LOW-HIGH``, two whole numbers from 1."""
    low, _, high = text.partition('-')
    if not (low.isdecimal() and high.isdecimal() and 1 <= int(low) <= int(high)):
        raise argparse.ArgumentTypeError(f'{text} is not LOW-HIGH, two whole numbers from 1')
    return int(low), int(high)


def parser():
    command_line = argparse.ArgumentParser(
        prog='nova-sched-sim replay',
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = command_line.add_subparsers(
        dest='workload', required=True, metavar='openb|azure|huawei'
    )
    openb = kinds.add_parser('openb', help='pods on the nodes of a GPU cluster')
    openb.add_argument('--nodes', required=True, metavar='FILE', help='list of GPU nodes')
    openb.add_argument('--pods', required=True, metavar='FILE', help='list of pods')
    openb.add_argument(
        '--load',
        type=amount,
        default=1.3,
        metavar='SHARE',
        help='pods come until they ask for that share of all GPUs (%(default)s)',
    )
    azure = kinds.add_parser('azure', help='servers of a region, with departures')
    azure.add_argument(
        '--trace',
        required=True,
        metavar='FILE',
        help='table of VMs, with flavors.csv and duration_bins.csv in the same directory',
    )
    positive = number(1)
    azure.add_argument('--vcpus', type=positive, default=64, metavar='N', help='of each host')
    azure.add_argument('--memory', type=positive, default=448, metavar='GIB', help='of each host')
    count = azure.add_mutually_exclusive_group(required=True)
    count.add_argument('--hosts', type=positive, metavar='N', help='how many hosts')
    count.add_argument(
        '--fewest',
        type=span,
        metavar='LOW-HIGH',
        help='find the fewest hosts, in this range, on which nothing is refused',
    )
    azure.add_argument(
        '--moves',
        type=share,
        default=0.0,
        metavar='SHARE',
        help='of the running servers are moved each hour, to empty hosts (%(default)s)',
    )
    azure.add_argument('--hours', type=amount, metavar='N', help='of the trace (all)')
    huawei = kinds.add_parser('huawei', help='servers with NUMA cells, in chained sequences')
    huawei.add_argument('--hosts', required=True, metavar='FILE', help='free capacity of cells')
    huawei.add_argument('--sequences', required=True, nargs='+', metavar='FILE')
    for kind in (openb, azure, huawei):
        _add_common(kind)
    return command_line


def _add_common(kind):
    kind.add_argument(
        '--policy',
        action='append',
        metavar='NAME[=FILE]',
        help=f'may be repeated ({", ".join(POLICIES)})',
    )
    positive = number(1)
    kind.add_argument(
        '--seeds', type=positive, default=1, metavar='N', help='how many (%(default)s)'
    )
    kind.add_argument(
        '--first-seed', type=number(0), default=100, metavar='N', help='(%(default)s)'
    )
    kind.add_argument(
        '--processes', type=positive, default=os.cpu_count(), metavar='N', help='(%(default)s)'
    )
    kind.add_argument('--format', choices=['table', 'json'], default='table', help='(%(default)s)')
    kind.add_argument(
        '--plot', metavar='FILE', help='draw the runs into a .png or .svg (needs matplotlib)'
    )


def main(argv):
    options = parser().parse_args(argv)
    backend.choose(['--config-file', os.devnull])
    from nova_sched.cmd import startup

    return startup.guarded(lambda: _run(options))


def _run(options):
    from rich.console import Console

    from nova_sched.extensions.simulator.replays import run

    named = {run.read_policy(text)[0]: text for text in options.policy or POLICIES}
    is_search = getattr(options, 'fewest', None) is not None
    seeds = range(options.first_seed, options.first_seed + (1 if is_search else options.seeds))
    results = {policy: {} for policy in named}
    console = Console(stderr=options.format == 'json')
    with concurrent.futures.ProcessPoolExecutor(
        options.processes,
        mp_context=multiprocessing.get_context('spawn'),
        max_tasks_per_child=1,
    ) as pool:
        jobs = {
            pool.submit(one_run, options, text, seed): (policy, seed)
            for policy, text in named.items()
            for seed in seeds
        }
        for job in concurrent.futures.as_completed(jobs):
            policy, seed = jobs[job]
            results[policy][seed] = job.result()
            console.print(f'{policy}, seed {seed}: done', style='dim', highlight=False)
    ordered = {policy: dict(sorted(runs.items())) for policy, runs in results.items()}
    (_show_hosts if is_search else _show)(options, ordered, console)
    return 0


def one_run(options, policy, seed):
    """Run one policy with one seed, in a process of its own. Return the Course; for a search,
    the fewest hosts."""
    backend.choose(['--config-file', os.devnull])
    from nova_sched.cmd import startup
    from nova_sched.conf import CONF
    from nova_sched.extensions.simulator.replays import run

    _, values, path = run.read_policy(policy)
    startup.configure(['--config-file', path or os.devnull])
    logging.getLogger().setLevel(logging.ERROR)
    if getattr(options, 'fewest', None) is not None:
        run.apply_options(CONF, values)
        workload_of = functools.partial(_workload, options)
        return run.fewest_hosts(workload_of, CONF, *options.fewest)
    workload = _workload(options)
    run.apply_options(CONF, workload.options, values)
    hourly = run.HourlyMoves(options.moves) if getattr(options, 'moves', 0.0) else None
    return run.EngineReplay(workload, CONF, seed, hourly).run()


def _workload(options, hosts=None):
    """The workload that is asked for; ``hosts``: how many, in place of --hosts."""
    from nova_sched.extensions.simulator.replays import workloads

    match options.workload:
        case 'openb':
            return workloads.openb(options.nodes, options.pods, options.load)
        case 'azure':
            return workloads.azure(
                options.trace, hosts or options.hosts, options.vcpus, options.memory, options.hours
            )
        case 'huawei':
            return workloads.huawei(options.hosts, options.sequences)


def _show(options, results, console):
    from nova_sched.extensions.simulator.replays import figures

    if options.format == 'json':
        print(json.dumps(figures.as_dict(options.workload, results), indent=2))
    else:
        console.print(figures.table(options.workload, results))
    if options.plot:
        figures.draw(options.plot, options.workload, results)
        console.print(f'Plot: {options.plot}', highlight=False)


def _show_hosts(options, results, console):
    fewest = {policy: next(iter(runs.values())) for policy, runs in results.items()}
    if options.format == 'json':
        print(json.dumps({'workload': options.workload, 'fewest_hosts': fewest}, indent=2))
        return
    for policy, hosts in fewest.items():
        shown = hosts or f'more than {options.fewest[1]}'
        console.print(f'{policy}: {shown} hosts', highlight=False)
