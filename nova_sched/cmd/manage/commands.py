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
"""The command line: nouns, verbs, and their common options."""

import argparse
import importlib
import logging
import sys
import threading
from time import monotonic, sleep

from nova_sched import errors, extension, logs
from nova_sched.cmd.manage import arguments, output
from nova_sched.conf import CONF

NOUNS = {
    'db': 'upgrade the database to the schema of this release',
    'host': 'show compute hosts, take them out of service or back into it, and remove them',
    'server': 'place servers',
    'claim': 'show, make, end and audit the claims on hosts',
    'group': 'plan and manage groups of servers',
    'quota': 'show and set the limits of projects',
    'scheduler': 'show the running schedulers and their figures',
    'cloud': 'show what the schedulers can read of a Nova cloud',
    'explain': 'explain why a request found no host, or where the next one would go',
    'config': 'check a configuration',
    'health': 'check whether the services work',
    'completion': 'complete this command in a shell',
}
# Where the verbs of nouns are that have no module of their own name.
PLACES = {'completion': f'{__package__}.commands:VERBS', 'db': f'{__package__}.store:VERBS'}

WATCHED = ('list', 'show')
WATCH_S = 2
CLEAR = '\033[H\033[2J'  # ECMA-48: the cursor to the top left, and the screen empty
QUIET_S = 2  # seconds until a sign is shown

DESCRIPTION = """\
Manage nova_sched: its database, its hosts, claims, groups, queues and decisions, and its
configuration.

Most verbs use only the database of the configuration; they call neither a scheduler nor the
message bus. 'server place', 'claim create', 'cloud status', 'explain dry-run', 'explain why-not',
'explain capacity', 'fragmentation show', 'rebalance plan' and all of 'group' but 'group validate'
call a running scheduler, over the bus, and 'queue list' a manager of queues. The changes of
'flavor' are also sent over the bus.
"""
EPILOG = """\
Without --config-file, nova_sched.conf is searched for in ~/.nova_sched, ~, /etc/nova_sched and
/etc, as by the daemons. The exit status is 0 for success, 1 for a failure, and 2 for an invalid
command line.

See also 'nova-sched-manage NOUN --help' and 'nova-sched-manage NOUN VERB --help'.
"""


def log(debug=False):
    """Errors, or with ``debug`` everything, to standard error; the log files of the daemons are
    not used."""
    level = logging.DEBUG if debug else logging.ERROR
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logs.VisibleFormatter('%(levelname)s %(name)s: %(message)s'))
    logging.basicConfig(level=level, handlers=[handler])


def run(args):
    """Run a command line. Return the exit status; raises SchedError or cfg.Error."""
    files = [word for pair in (*args.config, *args.more_config) for word in pair]
    CONF(files, project='nova_sched')
    if getattr(args, 'watch', None) is None:
        return _once(args)
    return repeat(lambda: _once(args), args.watch, args.format == output.TABLE)


def _once(args):
    """Run the verb. Return the exit status."""
    args.begun_s, args.sign = monotonic(), Sign('working')
    try:
        return args.verb(args, CONF)
    finally:
        args.sign.end()


def repeat(verb, each_s, clears):
    """Run ``verb`` each so many seconds. A failure is printed, and the next run follows. Return
    the exit status of the last run."""
    status = 0
    try:
        while True:
            if clears and sys.stdout.isatty():
                print(CLEAR, end='')
            try:
                status = verb()
            except errors.BadConfig:
                raise
            except errors.SchedError as error:
                status = 1
                output.complain(error)
            sleep(each_s)
    except KeyboardInterrupt:
        return status


class Sign:
    """A moving sign on standard error, if that is a terminal, until the first output. It starts
    after QUIET_S. ``progress`` is what is shown; None: nothing is."""

    def __init__(self, what, after_s=QUIET_S):
        self._what, self.progress = what, None
        self._lock = threading.Lock()
        self._timer = threading.Timer(after_s, self._show)
        self._timer.daemon = True
        if sys.stderr.isatty():
            self._timer.start()

    def _show(self):
        from rich.console import Console  # late: most commands are done at once
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._timer.finished.is_set():
                return
            columns = SpinnerColumn(), TextColumn('{task.description}'), TimeElapsedColumn()
            self.progress = Progress(
                *columns, console=Console(stderr=True), transient=True, redirect_stdout=False
            )
            self.progress.add_task(self._what, total=None)
            self.progress.start()

    def end(self):
        """Remove the sign, or do not show it at all."""
        self._timer.cancel()
        with self._lock:
            if self.progress is not None:
                self.progress.stop()
                self.progress = None


def parser(complete=()):
    """The whole command line. A noun gets its verbs when it is used; those of ``complete`` have
    them at once."""
    top = argparse.ArgumentParser(
        prog='nova-sched-manage',
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument('--version', action=Version, nargs=0, help='print the version, and exit')
    top.add_argument('--debug', action='store_true', help='log to standard error')
    add_config(top, 'config')
    added_nouns = top.add_subparsers(
        title='nouns', metavar='NOUN', required=True, parser_class=NounParser
    )
    for noun, (help_, _) in nouns().items():
        sentence = f'{help_[:1].upper()}{help_[1:]}.'
        added = added_nouns.add_parser(noun, help=help_, description=sentence, allow_abbrev=False)
        if noun in complete:
            added.add_verbs()
    return top


class Version(argparse.Action):
    """Reads the version from the installed package only when it is asked for."""

    def __call__(self, parser, *_):
        from importlib import metadata

        parser.exit(message=metadata.version('nova-sched') + '\n')


def nouns():
    """All nouns, in the order of the help: their help texts, and where their verbs are."""
    places = {
        noun: (help_, PLACES.get(noun, f'{__package__}.{noun}:VERBS'))
        for noun, help_ in NOUNS.items()
    }
    for noun, described in extension.united('nouns').items():
        places.setdefault(noun, described)
    return places


def verbs_of(noun):
    """The verbs of a noun; only now is their module imported."""
    module, _, name = nouns()[noun][1].partition(':')
    return getattr(importlib.import_module(module), name)


class NounParser(argparse.ArgumentParser):
    """Adds its verbs when it is used: a command imports the module of its own noun only."""

    _has_verbs = False

    def parse_known_args(self, args=None, namespace=None):
        if not self._has_verbs:
            self.add_verbs()
        return super().parse_known_args(args, namespace)

    def add_verbs(self):
        self._has_verbs = True
        verbs = self.add_subparsers(
            title='verbs', metavar='VERB', required=True, parser_class=argparse.ArgumentParser
        )
        for verb in verbs_of(self.prog.rpartition(' ')[2]):
            _add_verb(verbs, verb)


def _add_verb(verbs, verb):
    """A verb is its name, a function whose docstring is the help, and functions that add its
    arguments."""
    name, function, *add_arguments = verb
    first, _, rest = function.__doc__.partition('\n')
    rest = '\n'.join(line.removeprefix('    ') for line in rest.splitlines()).rstrip()
    parser = verbs.add_parser(
        name,
        help=first[:1].lower() + first[1:].rstrip('.'),
        description=f'{first}\n{rest}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for add in add_arguments:
        add(parser)
    output.add_arguments(parser)
    if name in WATCHED:
        parser.add_argument(
            '--watch',
            metavar='SECONDS',
            type=arguments.seconds,
            nargs='?',
            const=WATCH_S,
            help=f'repeat until it is interrupted, each {WATCH_S} seconds by default',
        )
    add_config(parser, 'more_config')
    parser.set_defaults(verb=function)


def add_config(parser, dest):
    """The options that name configuration files, in their order; anywhere on the command line."""
    for flag, what, help_ in (
        ('--config-file', 'FILE', 'file'),
        ('--config-dir', 'DIR', 'directory (its *.conf files)'),
    ):
        parser.add_argument(
            flag,
            metavar=what,
            dest=dest,
            action='append',
            default=[],
            type=lambda value, flag=flag: (flag, value),
            help=f'read this configuration {help_}; may be repeated',
        )


# Completion in shells.


def bash(_args, _conf):
    """Print the script for bash

    To use it: source <(nova-sched-manage completion bash)
    """
    return _print('bash')


def zsh(_args, _conf):
    """Print the script for zsh

    To use it: source <(nova-sched-manage completion zsh)
    """
    return _print('zsh')


def fish(_args, _conf):
    """Print the script for fish

    To use it: nova-sched-manage completion fish | source
    """
    return _print('fish')


def _print(shell):
    import argcomplete  # late: other commands do not need it

    print(argcomplete.shellcode(['nova-sched-manage'], shell=shell))
    return 0


VERBS = (('bash', bash), ('zsh', zsh), ('fish', fish))
