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
"""nova-sched-sim: simulated computes and conductors replay a trace of real requests against a
scheduler."""

import argparse
import contextlib
import itertools
import json
import logging
import os
import pathlib
import sys
import tempfile

from nova_sched.cmd import backend
from nova_sched.extensions.simulator import cmd_replay as sim_replay
from nova_sched.extensions.simulator import cmd_storm as sim_storm
from nova_sched.extensions.simulator.cmd_replay import number, share

DESCRIPTION = """
Simulated compute nodes report to a scheduler. Simulated conductors boot and delete servers from a
trace of real requests, and a summary shows the results. Calls, claims and the database are real;
only the hours of the trace pass at full speed. At the end no node may be over its capacity, and
each running server must have exactly one claim.
"""
EPILOG = """
examples:
  nova-sched-sim --embedded
        the scheduler in this process too: nothing else is needed
  nova-sched-sim --embedded --nodes 1000 --requests 2000 --inflight 64
  nova-sched-sim --config-file nova_sched.conf --requests 500
        against running schedulers, over the bus of [DEFAULT] transport_url; a test cloud, because
        its free hosts get claims, too
  nova-sched-sim replay --help
        public data sets through the engine, by several policies next to each other
  nova-sched-sim storm --hours 1
        several schedulers in simulated bad weather, from a seed

exit status: 0 success, 1 it cannot run, 2 wrong usage, 3 a check failed, 130 interrupted
"""
ORIGIN = 'from a public cloud (Azure, 2017; CC BY 4.0)'
VIOLATED, INTERRUPTED = 3, 130
REPLAY, STORM = 'replay', 'storm'  # the first argument: other command lines


def parser():
    command_line = argparse.ArgumentParser(
        prog='nova-sched-sim',
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = command_line.add_argument_group('the scheduler (one of the first two is needed)')
    where.add_argument(
        '--embedded',
        action='store_true',
        help='run one in this process: on fake://, with a separate database',
    )
    where.add_argument(
        '--config-file',
        metavar='FILE',
        help='configuration: of the bus, and with --embedded of the filters and weighers',
    )
    where.add_argument(
        '--state-dir',
        metavar='DIR',
        help='keep the embedded database and log in this new or empty directory',
    )
    hosts = command_line.add_argument_group('the compute nodes')
    positive = number(1)
    hosts.add_argument(
        '--nodes', type=positive, default=200, metavar='N', help='how many (%(default)s)'
    )
    hosts.add_argument(
        '--zones', type=positive, default=3, metavar='N', help='availability zones (%(default)s)'
    )
    hosts.add_argument(
        '--racks', type=positive, default=4, metavar='N', help='racks in each zone (%(default)s)'
    )
    hosts.add_argument(
        '--vcpus', type=positive, default=64, metavar='N', help='of each node (%(default)s)'
    )
    hosts.add_argument(
        '--memory',
        type=positive,
        default=128,
        metavar='GIB',
        help='of each node, for servers (%(default)s)',
    )
    hosts.add_argument(
        '--disabled',
        type=share,
        default=0.02,
        metavar='SHARE',
        help='of nodes in maintenance (%(default)s)',
    )
    hosts.add_argument(
        '--failing',
        type=share,
        default=0.01,
        metavar='SHARE',
        help='of builds; the server goes to an alternate (%(default)s)',
    )
    hosts.add_argument(
        '--this-machine', action='store_true', help='add this machine with its real facts'
    )
    load = command_line.add_argument_group('the requests')
    load.add_argument(
        '--trace',
        metavar='FILE',
        help='table of VMs, with flavors.csv and duration_bins.csv in the same directory '
        '(four hours of Azure, 2017)',
    )
    load.add_argument(
        '--requests', type=positive, metavar='N', help='only the first N of the trace (all)'
    )
    load.add_argument(
        '--zoned',
        type=share,
        default=0.7,
        metavar='SHARE',
        help='share of projects that name a zone (%(default)s)',
    )
    load.add_argument(
        '--inflight', type=positive, default=32, metavar='N', help='calls at once (%(default)s)'
    )
    load.add_argument(
        '--seed',
        type=number(0),
        default=1,
        metavar='N',
        help='seed of the random numbers (%(default)s)',
    )
    command_line.add_argument(
        '--format', choices=['table', 'json'], default='table', help='of the summary (%(default)s)'
    )
    return command_line


def main():
    try:
        return _main()
    except KeyboardInterrupt:
        print('nova-sched-sim: interrupted', file=sys.stderr)
        return INTERRUPTED


def _main():
    if sys.argv[1:2] == [REPLAY]:
        return sim_replay.main(sys.argv[2:])
    if sys.argv[1:2] == [STORM]:
        return sim_storm.main(sys.argv[2:])
    command_line = parser()
    options = command_line.parse_args()
    if not (options.embedded or options.config_file):
        command_line.error('give --embedded, or --config-file with the bus of a running scheduler')
    if options.state_dir and not options.embedded:
        command_line.error('--state-dir is for --embedded')
    # Without a given file, the embedded scheduler ignores configuration files on this machine.
    options.config = ['--config-file', options.config_file or os.devnull]
    options.backend = backend.choose(options.config)
    # Imported after the backend is chosen: these modules import what it patches.
    from nova_sched.cmd import startup

    return startup.guarded(lambda: _run(options))


def _run(options):
    with contextlib.ExitStack() as stack:
        result = _simulate(options, stack)
    if options.format == 'json':
        from nova_sched.extensions.simulator import report

        print(json.dumps(report.as_dict(result), indent=2))
    return status(result)


def status(result):
    """Return the exit status of a run."""
    return VIOLATED if result.violations else 0


def _simulate(options, stack):
    from nova_sched.extensions.simulator import report, session, trace

    directory = _directory(options, stack)
    conf = _configure(options, directory)
    arrivals = trace.load(options.trace) if options.trace else trace.load()
    arrivals = trace.split(arrivals, conf.scheduler.max_instances_per_request)
    arrivals = list(itertools.islice(arrivals, options.requests))
    console = _console(options)
    settings = _settings(options)
    machine = _machine(options, settings, directory, console)
    report.announce(console, settings, machine, options.trace or ORIGIN)
    if options.embedded:
        kept = f' in {directory}' if options.state_dir else ''
        where = f'in this process, on fake:// and SQLite{kept}'
    else:
        where = f'on the bus that {options.config_file} names'
    console.print(f'Scheduler: {where}.', highlight=False)
    bus, service = _scheduler(options, conf, stack)
    with report.live(console, len(arrivals)) as watch:
        result = session.play(settings, arrivals, bus, service, machine, watch)
    if options.format == 'table':
        report.show(console, result)
    return result


def _directory(options, stack):
    """The directory of the embedded scheduler's state and of this machine's identity."""
    from nova_sched import errors

    if not options.state_dir:
        return pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix='nova-sched-sim-'))
        )
    directory = pathlib.Path(options.state_dir)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise errors.BadConfig('--state-dir', f'{directory} is not empty')
    except OSError as error:
        raise errors.BadConfig('--state-dir', str(error)) from None
    return directory


def _configure(options, directory):
    from nova_sched.cmd import startup
    from nova_sched.conf import CONF

    argv = list(options.config)
    if options.embedded:
        argv += ['--log-file', str(directory / 'nova-sched-sim.log')]
    startup.configure(argv)
    CONF.set_override('service_backend', options.backend)
    if options.embedded:
        CONF.set_override(
            'connection', f'sqlite:///{directory / "nova-sched.sqlite"}', group='database'
        )
    else:
        logging.getLogger().setLevel(logging.ERROR)
    return CONF


def _settings(options):
    from nova_sched.extensions.simulator import machines, session

    reserved_mb = machines.MachineShape().reserved_mb
    shape = machines.MachineShape(
        options.vcpus, options.memory * 1024 + reserved_mb, reserved_mb=reserved_mb
    )
    plan = machines.Plan(
        nodes=options.nodes,
        zones=options.zones,
        racks=options.racks,
        shape=shape,
        disabled=options.disabled,
        failing=options.failing,
        seed=options.seed,
    )
    return session.SimulationSettings(plan, options.inflight, options.zoned)


def _console(options):
    """The console for people: standard error if standard output is for JSON."""
    from rich.console import Console

    console = Console(stderr=options.format == 'json')
    return console if console.is_terminal else Console(stderr=options.format == 'json', width=110)


def _machine(options, settings, directory, console):
    from nova_sched import errors
    from nova_sched.extensions.simulator import machines

    if not options.this_machine:
        return None
    try:
        return machines.this_machine(directory, settings.plan.zone_names[0])
    except errors.BadMachineFacts as error:
        console.print(f'This machine is not added: {error}.', style='yellow')
        return None


def _scheduler(options, conf, stack):
    """The bus, and the scheduler if it runs in this process."""
    from nova_sched import rpc, service

    bus = rpc.transport(conf, 'fake://' if options.embedded else None)
    stack.callback(bus.cleanup)
    if not options.embedded:
        return bus, None
    embedded = service.SchedulerService(conf, bus)
    embedded.start()
    stack.callback(embedded.stop)
    return bus, embedded


if __name__ == '__main__':
    sys.exit(main())
