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

"""The part of nova-sched-sim that compares queues and the scheduler on the same servers, in
simulated time; and the types of numbers on its command line."""

import argparse
import contextlib
import json
import logging
import math
import os
import pathlib
import tempfile
import time


def amount(text):
    """A number above 0."""
    with contextlib.suppress(ValueError):
        if 0.0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f'{text} is no number above 0')


def number(least):
    """The type of whole numbers from ``least``."""

    def read(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f'{text} is no whole number from {least}')
        return int(text)

    return read


def share(text):
    """A number from 0 to 1."""
    with contextlib.suppress(ValueError):
        if 0.0 <= float(text) <= 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f'{text} is no number from 0 to 1')


def add_options(models):
    """The options of a run in simulated time, into a group of a parser."""
    one = number(1)
    models.add_argument(
        '--model',
        choices=['queues', 'scheduler', 'both'],
        help='place the servers by queues of flavors, by the scheduler, or each on a '
        'separate fleet. The clock is simulated, in one thread: the same seed gives '
        'the same run; --inflight has no meaning',
    )
    models.add_argument(
        '--fullness',
        type=amount,
        default=1.1,
        metavar='SHARE',
        help='the trace is repeated until its peak is that share of the vCPUs (%(default)s)',
    )
    models.add_argument(
        '--prefill',
        type=share,
        default=0.0,
        metavar='SHARE',
        help='of the vCPUs in use at the start',
    )
    models.add_argument(
        '--hours', type=amount, default=4.0, metavar='N', help='of the trace (%(default)s)'
    )
    models.add_argument(
        '--packing',
        action='store_true',
        help='weighers prefer full nodes: their multipliers are -1, and 0 for builds in progress',
    )
    models.add_argument('--steps', type=one, metavar='N', help='[queues] priority_steps (10)')
    models.add_argument('--slots', type=one, metavar='N', help='[queues] slots (2)')
    models.add_argument(
        '--fallback-after', type=one, metavar='S', help='[queues] fallback_after (30)'
    )
    models.add_argument(
        '--build',
        type=amount,
        default=5.0,
        metavar='S',
        help='seconds of a build, on average (%(default)s)',
    )
    models.add_argument(
        '--by-rule',
        type=share,
        default=0.0,
        metavar='SHARE',
        help='share of projects whose requests only the scheduler can serve (%(default)s)',
    )
    models.add_argument(
        '--more-flavors',
        type=number(0),
        default=0,
        metavar='N',
        help='flavors that no request asks for (%(default)s)',
    )
    models.add_argument(
        '--more-specials',
        type=number(0),
        default=0,
        metavar='N',
        help='special things that no request asks for: each node has two of the traits and '
        'one of the resource classes among them (%(default)s)',
    )
    models.add_argument(
        '--memory-store',
        action='store_true',
        help='keep claims in memory: faster, and their SQL statements are not counted',
    )


def compare(options, plan, console):
    """Runs each model on the same nodes, one after the other. Shows and returns their figures by
    model."""
    from nova_sched.cmd import startup
    from nova_sched.conf import CONF
    from nova_sched.sim import trace
    from nova_sched.sim.models import comparison, report

    startup.configure(options.config)
    logging.getLogger().setLevel(logging.ERROR)
    _choose_weights(options, CONF)
    settings, results = _settings(options, plan, CONF), {}
    arrivals = trace.load(options.trace) if options.trace else trace.load()
    for model in comparison.MODELS if options.model == 'both' else [options.model]:
        # No file has to outlive this process: a file system in memory, if there is one, is faster.
        with tempfile.TemporaryDirectory(
            prefix='nova-sched-sim-', dir=_quick_directory()
        ) as directory:
            run = comparison.Run(settings, arrivals, CONF, pathlib.Path(directory))
            begin = getattr(comparison, model)
            results[model] = report.figures(model, begin(run, _watch(console, len(run.asks))))
    if options.format == 'json':
        print(json.dumps(results, indent=2))
    else:
        report.show(console, settings, results)
    return results


def _quick_directory():
    memory = pathlib.Path('/dev/shm')
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None


def _choose_weights(options, conf):
    """Weights that pack. The weight of builds in progress is 0, because it would spread a
    burst."""
    if options.packing:
        conf.set_override('io_ops_weight_multiplier', 0.0, group='filter_scheduler')
        for name in ('ram', 'cpu', 'disk'):
            conf.set_override(f'{name}_weight_multiplier', -1.0, group='filter_scheduler')


def _settings(options, plan, conf):
    from nova_sched.sim.models import comparison

    specials = [
        f'trait:CUSTOM_SPECIAL_{number}' if number % 2 else f'resource:CUSTOM_SPECIAL_{number}'
        for number in range(options.more_specials)
    ]
    return comparison.ComparisonSettings(
        plan=plan,
        zoned=options.zoned,
        hours=options.hours,
        fullness=options.fullness,
        prefill=options.prefill,
        packed=options.packing,
        build_s=options.build,
        slots=options.slots or conf.queues.slots,
        steps=options.steps or conf.queues.priority_steps,
        fallback_after_s=options.fallback_after or conf.queues.fallback_after,
        max_attempts=conf.scheduler.max_attempts,
        max_redeliveries=conf.queues.max_redeliveries,
        more_flavors=options.more_flavors,
        more_specials=specials,
        database=not options.memory_store,
        by_rule=options.by_rule,
        most_asks=options.requests,
    )


def _watch(console, asks):
    """Prints a line of progress at intervals."""
    from nova_sched.sim import report

    next_s = [time.monotonic() + report.PLAIN_INTERVAL_S]

    def watch(tally, now_s):
        if time.monotonic() >= next_s[0]:
            next_s[0] = time.monotonic() + report.PLAIN_INTERVAL_S
            face = report.clock_face(now_s)
            told = (
                f'{tally.asked:,}/{asks:,} servers  placed {tally.placed:,} refused '
                f'{tally.refused:,}'
            )
            console.print(f'{face:>5} h  {told}', highlight=False, soft_wrap=True)

    return watch
