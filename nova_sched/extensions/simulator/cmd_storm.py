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
"""nova-sched-sim storm: a simulated cloud in bad weather, from a seed."""

import argparse
import json
import os
import secrets
import time

from nova_sched.cmd import backend
from nova_sched.extensions.simulator.cmd_replay import amount, number

DESCRIPTION = """
Schedulers with their real engine and claim store, and simulated agents, conductors and bus, under
one simulated clock. Processes stand still, crash and restart, messages come late, twice or not at
all, the database refuses, loses answers, and its clock jumps. After each event the claims are
compared with what runs. A failure shows the last events of its server and node, and comes back
from its seed.
"""
EPILOG = """
examples:
  nova-sched-sim storm --hours 24
  nova-sched-sim storm --seed 4711 --seeds 1 --hours 1
  nova-sched-sim storm --nova --hours 1

exit status: 0 success, 1 it cannot run, 2 wrong usage, 3 a promise was broken, 130 interrupted
"""
BROKEN = 3


def parser():
    command_line = argparse.ArgumentParser(
        prog='nova-sched-sim storm',
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command_line.add_argument(
        '--seed', type=number(0), metavar='N', help='the first seed (a random one)'
    )
    command_line.add_argument(
        '--seeds', type=number(1), metavar='N', help='how many seeds (one for each hour)'
    )
    command_line.add_argument(
        '--hours',
        type=amount,
        default=1.0,
        metavar='N',
        help='of simulated time, in equal parts for the seeds (%(default)s)',
    )
    command_line.add_argument(
        '--nova', action='store_true', help='a stock Nova cloud, whose computes have no agents'
    )
    command_line.add_argument(
        '--format', choices=['table', 'json'], default='table', help='(%(default)s)'
    )
    return command_line


def main(argv):
    options = parser().parse_args(argv)
    if options.seed is None:
        options.seed = secrets.randbelow(10**9)
    backend.choose(['--config-file', os.devnull])
    from nova_sched.cmd import startup

    return startup.guarded(lambda: _run(options))


def _run(options):
    import logging

    from nova_sched.cmd import startup
    from nova_sched.extensions.simulator import storm, storm_nova

    startup.configure(['--config-file', os.devnull, '--log-file', os.devnull])
    logging.getLogger('nova_sched').setLevel(logging.ERROR)
    seeds = options.seeds or max(1, round(options.hours))
    laboratory = storm.Laboratory(storm_nova.NovaCloud if options.nova else storm.Cloud)
    try:
        for seed in range(options.seed, options.seed + seeds):
            begin_s = time.process_time()
            result = laboratory.run(seed, options.hours / seeds)
            _show(result, time.process_time() - begin_s, options.format)
            if result.failure:
                return BROKEN
    finally:
        laboratory.close()
    return 0


def _show(result, cpu_s, form):
    if form == 'json':
        plain = {
            'seed': result.seed,
            'hours': result.hours,
            'cpu_s': round(cpu_s, 1),
            'counts': result.counts,
            'digest': result.digest,
            'failure': result.failure,
        }
        print(json.dumps(plain, sort_keys=True), flush=True)
        return
    counts = ', '.join(f'{count} {name}' for name, count in sorted(result.counts.items()))
    print(f'seed {result.seed}: {result.hours:g} h in {cpu_s:.1f} s; {counts}', flush=True)
    if result.failure:
        print(f'Broken: {result.failure}', flush=True)
