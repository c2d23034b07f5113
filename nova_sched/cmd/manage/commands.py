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
import importlib.metadata
import logging
import sys

from nova_sched.cmd.manage import (
    claim,
    config,
    db,
    explain,
    flavor,
    group,
    host,
    job,
    queue,
    quota,
    scheduler,
)
from nova_sched.conf import CONF

NOUNS = (db, host, claim, group, flavor, queue, quota, job, scheduler, explain, config)

DESCRIPTION = """\
Manage nova_sched: its database, its hosts, claims, groups, queues and decisions, and its
configuration.

Most verbs use only the database of the configuration; they call neither a scheduler nor the
message bus. 'explain dry-run', 'explain why-not', 'explain capacity' and all of 'group' but
'group validate' call a running scheduler, over the bus, and 'queue list' a manager of queues. The
changes of 'flavor' are also sent over the bus.
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
    logging.basicConfig(
        level=level, stream=sys.stderr, format='%(levelname)s %(name)s: %(message)s'
    )


def run(args):
    """Run a command line. Returns the exit status; raises SchedError or cfg.Error."""
    files = [word for pair in (*args.config, *args.more_config) for word in pair]
    CONF(files, project='nova_sched')
    return args.verb(args, CONF)


def parser():
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog='nova-sched-manage',
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument(
        '--version', action='version', version=importlib.metadata.version('nova-sched')
    )
    top.add_argument('--debug', action='store_true', help='log to standard error')
    _add_config(top, 'config')
    nouns = top.add_subparsers(title='nouns', metavar='NOUN', required=True)
    for module in NOUNS:
        sentence = f'{module.HELP[:1].upper()}{module.HELP[1:]}.'
        noun = nouns.add_parser(
            module.NOUN, help=module.HELP, description=sentence, allow_abbrev=False
        )
        verbs = noun.add_subparsers(title='verbs', metavar='VERB', required=True)
        for verb in module.VERBS:
            _add_verb(verbs, verb)
    return top


def _add_verb(verbs, verb):
    """A verb is its name, a function whose docstring is the help, and a function that adds its
    arguments, if it has any."""
    name, function, *add_arguments = verb
    parser = verbs.add_parser(
        name,
        help=_first_line(function),
        description=_description(function),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for add in add_arguments:
        add(parser)
    parser.add_argument(
        '--format',
        choices=('table', 'json'),
        default='table',
        help='a table for people (default), or JSON for scripts',
    )
    _add_config(parser, 'more_config')
    parser.set_defaults(verb=function)


def _add_config(parser, dest):
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


def _first_line(function):
    text = function.__doc__.partition('\n')[0].rstrip('.')
    return text[:1].lower() + text[1:]


def _description(function):
    head, _, rest = function.__doc__.partition('\n')
    return (
        head + '\n' + '\n'.join(line.removeprefix('    ') for line in rest.splitlines()).rstrip()
    )
