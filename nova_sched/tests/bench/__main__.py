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
"""Runs the benchmarks and prints one table: `python -m nova_sched.tests.bench [--only NAME
...]`."""

import argparse
import os
import sys
import warnings

PARTS = ('decisions', 'rules', 'first-requests', 'claims', 'shared', 'reports', 'calls')
ASKED_FOR = (
    'calls-postgresql',
    'shared-mariadb',
    'spread',
    'joint',
    'racks',
    'queue-fit',
    'queues',
    'parts',
    'batches',
    'start',
    'hostile',
    'nova-cells',
    'recorded',
    'observed',
    'exit-times',
    'dashboards',
    'holds',
)  # run by name only
FIELDS = ('what', 'p50', 'p99', 'a second', 'floor', 'ratio', 'conflicts', 'first request')
CROWD_FIELDS = 'what,schedulers,unseen,way,conflicts,lost,late,given up,full,uneven,large'.split(
    ','
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--only', nargs='+', choices=PARTS + ASKED_FOR, default=PARTS, help='run these parts only'
    )
    parser.add_argument('--seconds', type=float, default=3.0, help='time for each figure')
    parser.add_argument('--format', choices=('table', 'json'), default='table')
    arguments = parser.parse_args()
    warnings.simplefilter('ignore')
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    rows = list(_rows(arguments))
    if arguments.format == 'json':
        import json

        print(json.dumps(rows, indent=1))
    else:
        _print(rows)
    print(f'load {os.getloadavg()[0]:.1f}; ratios compare figures of one run', file=sys.stderr)


def _rows(arguments):
    from oslo_log import log

    from nova_sched.conf import CONF
    from nova_sched.tests.bench import (
        all_rules,
        batches,
        calls,
        commits,
        crowd_spread,
        dashboards,
        decisions,
        exit_times,
        first_requests,
        holds,
        hostile,
        joint,
        joint_huawei,
        nova_cells,
        observed,
        parts,
        queue_catalogue,
        queue_fit,
        recorded,
        reporting,
        shared,
        start,
    )

    log.register_options(CONF)
    CONF([], project='nova_sched', default_config_files=[])
    modules = {
        'decisions': decisions,
        'rules': all_rules,
        'first-requests': first_requests,
        'claims': commits,
        'shared': shared.POSTGRESQL,
        'shared-mariadb': shared.MARIADB,
        'spread': crowd_spread,
        'reports': reporting,
        'calls': calls.SQLITE,
        'calls-postgresql': calls.POSTGRESQL,
        'joint': joint,
        'racks': joint_huawei,
        'queue-fit': queue_fit,
        'queues': queue_catalogue,
        'parts': parts,
        'batches': batches,
        'start': start,
        'hostile': hostile,
        'nova-cells': nova_cells,
        'recorded': recorded,
        'observed': observed,
        'exit-times': exit_times,
        'dashboards': dashboards,
        'holds': holds,
    }
    for name in arguments.only:
        for row in modules[name].rows(arguments.seconds):
            print('.', end='', flush=True, file=sys.stderr)
            yield row


def _print(rows):
    from prettytable import PrettyTable

    from nova_sched.tests.bench import holds, joint_tables, parts, queue_catalogue

    tables = (
        FIELDS,
        holds.FIELDS,
        CROWD_FIELDS,
        parts.FIELDS,
        *joint_tables.TABLES,
        queue_catalogue.FIELDS,
    )
    for fields in tables:
        table = PrettyTable(fields)
        table.align = 'r'
        for name in ('what', 'floor', 'way'):
            table.align[name] = 'l'
        table.add_rows(
            [[row.get(name, '') for name in fields] for row in rows if row.keys() <= set(fields)]
        )
        if table.rows:
            print(table)


if __name__ == '__main__':
    main()
