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
"""A Sphinx directive, ``command-reference``, that renders the options and subcommands of a command
from its argparse parser.

The parsers are read as they are: the texts of options are plain text, which libraries for this
would read as reStructuredText.
"""

import argparse
import os
import re

from docutils import nodes
from oslo_config import cfg
from oslo_log import log
from oslo_upgradecheck import upgradecheck
from sphinx.util.docutils import SphinxDirective

from nova_sched.cmd import backend, status
from nova_sched.cmd.manage import commands
from nova_sched.extensions.simulator import cmd as sim
from nova_sched.extensions.simulator import cmd_replay as sim_replay
from nova_sched.extensions.simulator import cmd_storm as sim_storm


def parser_of(command):
    """The argparse parser of a command of this package, with all of its subcommands."""
    if command == 'nova-sched-manage':
        return commands.parser(complete=commands.nouns())
    parsers = {
        'nova-sched-sim': sim.parser,
        'nova-sched-sim replay': sim_replay.parser,
        'nova-sched-sim storm': sim_storm.parser,
    }
    return parsers[command]() if command in parsers else _daemon(command)


def _daemon(command):
    """The parser of a daemon: it has the options of oslo.config and oslo.log."""
    conf = cfg.ConfigOpts()
    if command == 'nova-sched-status':
        upgradecheck.register_cli_options(conf, status.Checks(conf))
    else:
        log.register_options(conf)
    argv = ['upgrade', 'check'] if command == 'nova-sched-status' else []
    conf(argv, project='nova_sched', prog=command, version='', default_config_files=[])
    return conf._oparser


def content(parser):
    """Return nodes: usage, description, options, the same of each subcommand, and the epilog.
    Options that all subcommands have are described once."""
    shared = _shared(parser)
    found = _body(parser, {})
    if shared:
        found.append(_section('Options of all verbs', [_options(shared.values())]))
    return [*found, *_tree(parser, shared), *_prose(parser.epilog)]


def _tree(parser, shared):
    """A section for each subcommand, without the options that are described elsewhere."""
    return [
        _section(one.prog.partition(' ')[2], _body(one, shared) + _tree(one, shared))
        for one in _subcommands(parser)
    ]


def _body(parser, shared):
    usage = parser.format_usage().rstrip().replace('\n' + ' ' * len('usage: '), '\n')
    usage = usage.removeprefix('usage: ')
    found = [nodes.literal_block(usage, usage), *_prose(parser.description)]
    for group in parser._action_groups:
        shown = [one for one in group._group_actions if _is_shown(one, shared)]
        if shown:
            found += [nodes.paragraph('', f'{group.title.capitalize()}:'), _options(shown)]
    return found


def _is_shown(action, shared):
    if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
        return False
    return not shared.keys() & set(action.option_strings)


def _subcommands(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _shared(parser):
    """The options that all verbs of all nouns have, by their last name."""
    verbs = [
        {one.option_strings[-1]: one for one in verb._actions if one.option_strings}
        for noun in _subcommands(parser)
        for verb in _subcommands(noun)
    ]
    first = verbs[0] if verbs else {}
    return {name: one for name, one in first.items() if all(name in verb for verb in verbs)}


def _options(actions):
    return nodes.option_list('', *map(_option, actions))


def _option(action):
    value = action.metavar or (action.choices and '|'.join(action.choices)) or action.dest.upper()
    names = [nodes.option('', nodes.option_string('', name)) for name in action.option_strings]
    if not names:
        names = [nodes.option('', nodes.option_string('', value))]
    elif action.nargs != 0:
        for name in names:
            name += nodes.option_argument('', value, delimiter=' ')
    words = (action.help or '') % {'prog': '', **vars(action)}
    return nodes.option_list_item(
        '',
        nodes.option_group('', *names),
        nodes.description('', nodes.paragraph('', '', *_inline(words))),
    )


def _prose(text):
    """Paragraphs; one with indented lines is shown as it is."""
    for block in (text or '').strip('\n').split('\n\n'):
        if re.search('^ ', block, re.MULTILINE):
            yield nodes.literal_block(block, block)
        elif block:
            yield nodes.paragraph('', '', *_inline(' '.join(block.split())))


def _inline(text):
    """Text, where options such as ``--host`` are code: elsewhere two hyphens become a dash."""
    for word in re.split(r'((?<!\w)--[a-z][\w-]*)', text):
        yield nodes.literal('', word) if word.startswith('--') else nodes.Text(word)


def _section(title, below):
    return nodes.section('', nodes.title('', title), *below, ids=[nodes.make_id(title)])


class CommandReference(SphinxDirective):
    """The reference of the command that is the directive's argument, in its place."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        self.env.note_reread()  # the page changes with the command
        return content(parser_of(self.arguments[0]))


def setup(app):
    os.environ['COLUMNS'] = '80'  # argparse makes lines as wide as the terminal
    backend.ignore_eventlet()
    app.add_directive('command-reference', CommandReference)
    return {'parallel_read_safe': True}
