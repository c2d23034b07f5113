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
"""`cloud`: the Nova cloud that the schedulers read their hosts from."""

import textwrap

from nova_sched.cmd.manage import asking, output, tables
from nova_sched.cmd.manage.arguments import SHADOW, TIMEOUT

WHY = 72  # columns of a reason in a table
MAX_ROWS = 50  # hosts in a table


def status(args, conf):
    """Show what a running scheduler can read of Nova and Placement

    For schedulers that read their hosts from Nova ([cluster] source = nova). The exit status is 1
    if something is wrong: a part of the cloud cannot be read, or a host is silent or left out. A
    host or a cell that an operator has disabled, and a host that is forced down, are not wrong.

    Keys: ok, cells (cell_uuid, name, state: readable, unreadable, disabled or left out, why,
    looked_at, hosts, taking: how many hosts take servers), hosts (those that take none: host,
    cell_uuid, state: left out, disabled, forced down or silent, why), parts (part: the API
    database or Placement, reachable, why), writes (pending: decisions whose allocations are not
    written yet, in_doubt: servers of which that is not known; null for a shadow).
    """
    client = 'ShadowCloudClient' if args.shadow else 'CloudClient'
    answer = asking.ask(args, conf, client, lambda scheduler: scheduler.status())
    now_s = answer.pop('now')
    for cell in answer['cells']:
        cell['looked_at'] = tables.moment(cell['looked_at'])
    output.show(args, answer, text=lambda cloud: page(cloud, now_s))
    return 0 if answer['ok'] else 1


def page(cloud, now_s):
    """The status for people."""
    columns = {
        'Cell': lambda row: row['name'] or row['cell_uuid'],
        'State': lambda row: _with_why(row['state'], row['why']),
        'Last look': lambda row: tables.age(row['looked_at'], now_s),
        'Hosts': lambda row: row['hosts'],
        'Take servers': lambda row: row['taking'],
    }
    lines = [tables.table(columns, cloud['cells'])]
    names = {cell['cell_uuid']: cell['name'] or cell['cell_uuid'] for cell in cloud['cells']}
    if cloud['hosts']:
        rows = cloud['hosts'][:MAX_ROWS]
        lines += ['', tables.table({
            'Host': lambda row: row['host'],
            'Cell': lambda row: names.get(row['cell_uuid'], row['cell_uuid']),
            'State': lambda row: row['state'],
            'Why it takes no servers': lambda row: textwrap.fill(row['why'], WHY),
        }, rows)]  # fmt: skip
        if len(rows) < len(cloud['hosts']):
            lines.append(f'{len(cloud["hosts"]) - len(rows)} more; --format json has all of them.')
    lines.append('')
    for part in cloud['parts']:
        answer = 'answers' if part['reachable'] else f'FAILED: {part["why"]}'
        lines.append(tables.fill(answer, f'{part["part"]}: '))
    if writes := cloud['writes']:
        lines.append(f'Writes: {writes["pending"]} pending, {writes["in_doubt"]} in doubt')
    return '\n'.join(lines)


def _with_why(state, why):
    return state if why is None else textwrap.fill(f'{state}: {why}', WHY)


VERBS = (('status', status, TIMEOUT, SHADOW),)
