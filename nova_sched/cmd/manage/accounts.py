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
"""Explanations as text: filters with reasons, weights of each weigher, and free capacity."""

import textwrap
import time

from nova_sched.cmd.manage import tables

WIDTH, WHY = 110, 64
NAMED = 3  # removed hosts in a table

FILTERS = {
    'Filter': lambda one: one['filter'],
    'Seen': lambda one: one['seen'],
    'Left': lambda one: one['left'],
    'Why it removed hosts': lambda one: _why(one),
    'Removed': lambda one: _removed(one),
}
RULES = {
    'Rule': lambda one: one['rule'],
    'Verdict': lambda one: one['verdict'],
    'Why': lambda one: textwrap.fill(one['why'], WHY),
}


def decision(found):
    """The actual or possible outcome of a request."""
    instances = tables.count(found['instances'], 'instance')
    if found['reason']:
        lines = [_fill(f'{instances}, refused: {found["reason"]}')]
    else:
        lines = [f'{instances}, placed. {tables.count(found["hosts"], "host")} in all.']
    removing = [one for one in found['filters'] if one['seen'] > one['left']]
    if removing:
        lines += ['', tables.table(FILTERS, removing)]
    lines += _others(
        'Removed none: ', [one['filter'] for one in found['filters'] if one not in removing]
    )
    if found['placed']:
        lines += ['', tables.table(PLACED, found['placed'])]
    weighed = [one for one in found['placed'] if one.get('weights')]
    if weighed:
        lines += ['', _weighed([weighed[0], *weighed[0]['alternates']])]
    return '\n'.join(lines)


def _others(heading, names):
    """Rules that need no separate line."""
    text = f'{heading}{", ".join(names)}'
    return [textwrap.fill(text, WIDTH, subsequent_indent=' ' * len(heading))] if names else []


def _why(one):
    text = one['why']
    if one['nearest'] and one['seen'] - one['left'] > 1:
        text += f'; nearest is {one["nearest"]}'
    return textwrap.fill(text, WHY)


def _removed(one):
    gone = one['seen'] - one['left']
    named = one['removed'][:NAMED]
    more = [f'{gone - len(named)} more'] if gone > len(named) else []
    return '\n'.join([*named, *more])


PLACED = {
    'Instance': lambda one: one['instance_uuid'],
    'Host': lambda one: _place(one),
    'Weight': lambda one: _figure(one.get('weight')),
    'Alternates': lambda one: ', '.join(map(_place, one['alternates'])) or '-',
}


def _place(one):
    return one['host'] if one['host'] == one['node'] else f'{one["host"]} / {one["node"]}'


def _weighed(candidates):
    """The weight of each candidate by each weigher, best first: raw -> normalised, and times the
    multiplier."""
    columns = {'Weigher (raw -> 0..1 x multiplier)': lambda row: row[0]}
    for number, one in enumerate(candidates):
        columns[_heading(_place(one), columns)] = lambda row, number=number: row[1 + number]
    rows = [
        (one['weigher'], *(_weight(candidate, place) for candidate in candidates))
        for place, one in enumerate(candidates[0]['weights'])
    ]
    sums = ('sum', *(_figure(candidate.get('weight')) for candidate in candidates))
    return tables.table(columns, [*rows, sums])


def _heading(name, there):
    return f'{name} (again)' if name in there else name


def _weight(candidate, place):
    weights = candidate.get('weights') or ()
    if place >= len(weights):
        return '-'
    one = weights[place]
    parts = (_figure(one[name]) for name in ('raw', 'normalised', 'multiplier', 'weight'))
    return '{} -> {} x {} = {}'.format(*parts)


def _figure(value):
    if value is None:
        return '-'
    return f'{value:.0f}' if float(value).is_integer() else f'{value:.4g}'


def host(found):
    """The verdict of each rule on a host."""
    service = found['service']
    lines = [f'Host {found["host"]}, {_service(service)}']
    for node in found['nodes']:
        if node['passes']:
            verdict = (
                f'passes: place {node["rank"]} of {tables.count(node["of"], "node")} that pass'
            )
        else:
            refusing = [
                one['rule'] for one in node['rules'] if one['verdict'] in ('refuses', 'fails')
            ]
            verdict = f'does not pass: {", ".join(refusing)}'
        telling = [one for one in node['rules'] if one['verdict'] != 'passes']
        lines += ['', f'Node {node["node"]} {verdict}']
        lines += [tables.table(RULES, telling)] if telling else []
        lines += _others('Passes: ', [one['rule'] for one in node['rules'] if one not in telling])
        if node.get('weights'):
            best = node['best']
            me = {'host': found['host'], 'node': node['node'], **node}
            lines += ['', _weighed([me] if node['rank'] == 1 else [me, best])]
    return '\n'.join(lines)


def _service(service):
    word = 'disabled' if service['disabled'] else 'enabled'
    word += ', forced down' if service['forced_down'] else ''
    return word + (f' ({service["disabled_reason"]})' if service['disabled_reason'] else '')


def capacity(found):
    """How many more instances fit, and where."""
    least = 'at least ' if found['at_least'] else ''
    lines = [f'{least}{found["total"]} more, on {tables.count(found["hosts"], "host")}.']
    for heading, rows in (
        ('Zone', sorted(found['zones'].items())),
        (
            'Aggregate',
            [(f'{one["name"]} ({one["id"]})', one['total']) for one in found['aggregates']],
        ),
    ):
        if rows:
            columns = {heading: lambda row: row[0], 'Fit': lambda row: row[1]}
            lines += ['', tables.table(columns, rows)]
    return '\n'.join(lines)


def decisions(found):
    """The kept records of a request, decision by decision."""
    return '\n\n'.join(map(_trail, found))


def _trail(one):
    asked = one['asked']
    lines = [
        f'Request     {one["request_id"]}',
        f'Decided     {one["time"]}, {tables.age(one["time"], time.time())}',
        f'Asked for   {tables.amounts(asked["resources"])} (flavor {asked["flavor"]})',
        f'Project     {asked["project_id"] or "-"}',
    ]
    more = [f'{key}={value}' for key, value in sorted(asked['extra_specs'].items())]
    more += [f'zone {asked["zone"]}'] if asked['zone'] else []
    more += [f'server group with {asked["policy"]}'] if asked['policy'] else []
    lines += (
        [textwrap.fill(f'With        {", ".join(more)}', WIDTH, subsequent_indent=' ' * 12)]
        if more
        else []
    )
    return '\n'.join([*lines, '', decision(one)])


def _fill(text):
    return textwrap.fill(text, WIDTH)
