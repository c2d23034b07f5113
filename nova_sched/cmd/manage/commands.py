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
"""The command line: nouns, verbs, and what all of them share."""

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
Look after nova_sched: its database, its hosts, claims, groups, queues and decisions, and its configuration.

Everything goes through the database of the configuration; neither a scheduler nor the message bus is asked.
Only 'explain dry-run', 'explain why-not', 'explain capacity' and all of 'group' but 'group validate' ask a
running scheduler, over the bus, and 'queue list' a manager of queues. What 'flavor' changes is told over the
bus as well.
"""
EPILOG = """\
Without --config-file, nova_sched.conf is looked for in ~/.nova_sched, ~, /etc/nova_sched and /etc, as by the
daemons. The exit status is 0; 1 for what could not be done; 2 for a command line that makes no sense.

'nova-sched-manage NOUN --help' and 'nova-sched-manage NOUN VERB --help' tell more.
"""


def log(debug=False):
    """Errors, or with ``debug`` everything, to standard error; the files of the daemons are left
    alone."""
    level = logging.DEBUG if debug else logging.ERROR
    logging.basicConfig(
        level=level, stream=sys.stderr, format='%(levelname)s %(name)s: %(message)s'
    )


def run(args):
    """Do what a command line says. Returns the exit status; raises SchedError or cfg.Error."""
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
    top.add_argument('--debug', action='store_true', help='tell on standard error what happens')
    _add_config(top, 'config')
    nouns = top.add_subparsers(title='nouns', metavar='NOUN', required=True)
    for module in NOUNS:
        noun = nouns.add_parser(
            module.NOUN, help=module.HELP, description=_sentence(module.HELP), allow_abbrev=False
        )
        verbs = noun.add_subparsers(title='verbs', metavar='VERB', required=True)
        for verb in module.VERBS:
            _add_verb(verbs, verb)
    return top


def _add_verb(verbs, verb):
    """A verb is a function: its name without the underscore, its docstring, and how it adds
    arguments."""
    name, function, add_arguments = verb
    parser = verbs.add_parser(
        name,
        help=_first_line(function),
        description=_description(function),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_arguments(parser)
    parser.add_argument(
        '--format',
        choices=('table', 'json'),
        default='table',
        help='a table for people (default), or JSON for scripts',
    )
    _add_config(parser, 'more_config')
    parser.set_defaults(verb=function)


def _add_config(parser, dest):
    """The options that name configuration files, in the order in which they stand; anywhere on the
    line."""
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


def _sentence(text):
    return f'{text[:1].upper()}{text[1:]}.'
