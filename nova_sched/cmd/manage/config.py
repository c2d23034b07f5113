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
"""`config`: all problems of a configuration, at once."""

import dataclasses

from nova_sched.cmd.manage import checks, tables

NOUN = 'config'
HELP = 'check a configuration'


def check(args, conf):
    """Report all problems of the configuration, with advice

    The check covers: the values of all options in the files, unknown options, filters and
    weighers, the message bus's address (it is not called), the database (its schema is read), the
    broker, special things, driver and limits of queues. Nothing is changed. The exit status is 1
    if anything is an error; a warning alone is none.

    Keys with --format json: ok, files, findings (severity: error or warning, where, problem,
    advice).
    """
    files = checks.files(conf)
    findings = checks.everything(conf, files)
    wrong = [one for one in findings if one.severity == checks.ERROR]
    if args.format == 'json':
        listed = [dataclasses.asdict(one) for one in findings]
        tables.show(tables.as_json({'ok': not wrong, 'files': files, 'findings': listed}))
    else:
        tables.show(page(files, findings))
    return 1 if wrong else 0


def page(files, findings):
    """The findings as text."""
    lines = [f'Read: {", ".join(files) or "no file, all options have their defaults"}']
    for one in findings:
        lines += [
            '',
            f'{one.severity.upper()} {one.where}',
            tables.fill(one.problem, '  '),
            tables.fill(one.advice, '  -> '),
        ]
    wrong = sum(one.severity == checks.ERROR for one in findings)
    counts = tables.count(wrong, 'error'), tables.count(len(findings) - wrong, 'warning')
    return '\n'.join([*lines, '', f'{", ".join(counts)}.'])


def _none(parser):
    """The verb takes no additional arguments."""


VERBS = (('check', check, _none),)
