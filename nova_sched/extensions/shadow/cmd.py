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
"""nova-sched-shadow: watches the scheduler of a cloud, and reports how it would have decided."""

import argparse
import sys
import textwrap
import time

from nova_sched.cmd import backend

DESCRIPTION = """
Sum up the comparisons of nova-sched-shadow: how often it would have chosen the host that the
scheduler of the cloud has chosen, and which filters and weighers made the difference.

Read from shadow.jsonl in [DEFAULT] state_path; no service is called.
"""
DAY_S = 86400
WHY = 64  # columns of a reason in a table

OUTCOMES = {
    'same': 'same host',
    'among_best': 'another host, which is among the best for the shadow too',
    'passed': 'another host, which passes all filters of the shadow',
    'filtered': 'another host, which a filter of the shadow removes',
    'left_out': 'another host, which the shadow leaves out or does not know',
    'shadow_refused': 'refused by the shadow, placed by the cloud',
    'cloud_refused': 'placed by the shadow, refused by the cloud',
    'both_refused': 'refused by both',
    'not_known': 'what the cloud did is not known',
}


def main():
    if sys.argv[1:2] == ['report']:
        backend.ignore_eventlet()
        from nova_sched.cmd import startup

        return startup.guarded(lambda: _report(sys.argv[2:]))
    return backend.run_daemon(_run)


def _run():
    from oslo_service import service as oslo_service

    from nova_sched import service
    from nova_sched.cmd import startup
    from nova_sched.conf import base
    from nova_sched.extensions.shadow import service as shadow_service

    conf = startup.configure()
    # The claim store that a scheduler would use belongs to schedulers.
    conf.set_override('store', 'memory', 'claims')
    shadow_service.check(conf)
    startup.check(conf)
    base.set_service_defaults(conf)
    launcher = oslo_service.launch(
        startup.Reloadable(conf, check=service.rules),
        shadow_service.ShadowService(conf),
        restart_method='mutate',
    )
    return launcher.wait()


# The report.


def _report(argv):
    from nova_sched.cmd.manage import output
    from nova_sched.conf import CONF
    from nova_sched.extensions.shadow import journal
    from nova_sched.extensions.shadow.comparison import moment

    args = report_parser().parse_args(argv)
    CONF([word for pair in args.config for word in pair], project='nova_sched')
    since = moment(time.time() - args.since)
    output.show(args, journal.summed(journal.lines(CONF.state_path, since)), text=_page)
    return 0


def report_parser():
    """The command line of the report."""
    from nova_sched.cmd.manage import arguments, commands, output

    parser = argparse.ArgumentParser(
        prog='nova-sched-shadow report',
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands.add_config(parser, 'config')
    parser.add_argument(
        '--since',
        metavar='TIME',
        type=arguments.span,
        default=DAY_S,
        help='only of the last seconds, or 15m, 2h, 7d (1d)',
    )
    output.add_arguments(parser)
    return parser


def _page(report):
    """The report for people."""
    from nova_sched.cmd.manage import tables

    if not report['calls']:
        return 'No calls were compared in this time.'
    calls = tables.count(report['calls'], 'call')
    servers = tables.count(report['servers'], 'server')
    p50, p99, longest = (report[name] for name in ('p50_ms', 'p99_ms', 'max_ms'))
    lines = [
        f'{calls} for {servers}, {report["first"]} to {report["last"]}',
        f'Decided in {p50} ms (p50), {p99} ms (p99), {longest} ms (longest)',
        '',
        tables.table(
            {
                'Calls': lambda name: report[name],
                'Share': lambda name: f'{report[name] / report["calls"]:.1%}',
                'Outcome': lambda name: OUTCOMES[name],
            },
            [name for name in OUTCOMES if report[name]],
        ),
    ]
    if report['rules']:
        lines += ['', tables.table(RULES, report['rules'])]
    if report['hosts_left_out']:
        lines += ['', tables.table(LEFT_OUT, sorted(report['hosts_left_out'].items()))]
    if report['partial']:
        what = tables.count(report['partial'], 'call')
        lines += ['', f'{what} came while a part of the cloud could not be read.']
    if report['missed']:
        causes = ', '.join(f'{count} {cause}' for cause, count in sorted(report['missed'].items()))
        lines += ['', f'Not compared: {causes}.']
    return '\n'.join(lines)


RULES = {
    'Servers': lambda row: row['servers'],
    'Differ by': lambda row: f'{row["kind"]} {row["rule"]}',
    'Such as request': lambda row: row['requests'][0] or '-',
}
LEFT_OUT = {
    'Host left out': lambda row: row[0],
    'Why': lambda row: textwrap.fill(row[1], WHY),
}


if __name__ == '__main__':
    sys.exit(main())
