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
"""Groups as text. Pages are of the rows that ``plain`` makes."""

import io
import operator
import time

from nova_sched.cmd.manage import tables


def plain(group):
    """All fields of a TopGroup as keys and values; times as ISO 8601."""
    return {name: _plain(getattr(group, name)) for name in group.fields if name in group}


def _plain(value):
    if hasattr(value, 'isoformat'):
        return value.isoformat(timespec='seconds')
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return plain(value) if hasattr(value, 'fields') else value


def listing(rows):
    """One line for each group."""
    now_s = time.time()
    return tables.table(
        {
            'UUID': lambda row: row['uuid'],
            'Name': lambda row: row['name'] or '-',
            'Project': lambda row: row['project_id'] or '-',
            'Status': lambda row: row['status'],
            'Generation': lambda row: row['generation'],
            'Made': lambda row: tables.age(row['created_at'], now_s),
            'Expires': lambda row: tables.until(row['expires_at'], now_s),
        },
        rows,
    )


def place(row):
    """The host, and its node if that has another name."""
    if row['host'] is None:
        return '-'
    return (
        row['host']
        if row['nodename'] in (None, row['host'])
        else f'{row["host"]} / {row["nodename"]}'
    )


MEMBERS = {
    'Member': lambda row: row['path'],
    'State': lambda row: row['state'],
    'Host': place,
    'Zone': lambda row: row['availability_zone'] or '-',
    'Instance': lambda row: row['instance_uuid'] or '-',
}
MOVES = {
    'Member': lambda row: row['path'],
    'From': lambda row: row['from_host'] or '-',
    'To': lambda row: row['to_host'],
    'Instance': lambda row: row['instance_uuid'] or '-',
    'Why': lambda row: row['reason'],
}


def page(row):
    """All about one group, its members as a table."""
    return '\n'.join([*_head(row), '', tables.table(MEMBERS, row['members']), *_tail(row)])


def tree(row, below=None):
    """A group with its members below their domains; ``below`` as of ``levels``."""
    return '\n'.join([*_head(row), '', *_drawn(row['members'], below or {}), *_tail(row)])


def _head(row):
    now_s = time.time()
    lines = [
        ('Group', row['uuid'] if row['uuid'] else 'none yet'),
        ('Name', row['name'] or 'none'),
        ('Project', row['project_id'] or 'none'),
        ('Status', _status(row, now_s)),
        ('Members', _counts(row['members'])),
    ]
    return [tables.fill(text, f'{heading:12}') for heading, text in lines]


def _status(row, now_s):
    words = [row['status'], f'generation {row["generation"]}', f'serial {row["serial"]}']
    if row['dry_run']:
        return ', '.join(['a dry run, nothing is changed', *words])
    if row['created_at']:
        words.append(f'made {tables.age(row["created_at"], now_s)}')
    if any(member['state'] == 'planned' for member in row['members']):
        words.append(f'the plan expires {tables.until(row["expires_at"], now_s)}')
    return ', '.join(words)


def _counts(members):
    """`3: 2 confirmed, 1 planned`."""
    states = [member['state'] for member in members]
    each = ', '.join(f'{states.count(state)} {state}' for state in dict.fromkeys(states))
    return f'{len(states)}: {each}' if each else '0'


def _tail(row):
    lines = []
    if row['moves']:
        lines += ['', 'Moves that are needed:', tables.table(MOVES, row['moves'])]
    return [*lines, *_warned(row['warnings'])]


def _warned(warnings):
    return ['', *(tables.fill(text, 'Warning: ') for text in warnings)] if warnings else []


# The tree of domains.

HOST = 'host'


def _drawn(members, below_of):
    """The lines of the tree, and of members without a place."""
    placed = [member for member in members if member['host'] is not None]
    nested, beside = levels(placed, below_of)
    root: dict = {}
    for member in placed:
        below = root
        for level in nested:
            name = member['domains'][level]
            # A domain with the name of its only domain of the level below adds no information.
            below = (
                below if _is_alone(member, level, nested) else below.setdefault((level, name), {})
            )
        below = below.setdefault(_host(member, beside), {})
        below[member['path']] = member
    nowhere = [member['path'] for member in members if member['host'] is None]
    lines = _rendered(root) if placed else []
    return [*lines, *([tables.fill(', '.join(nowhere), 'Nowhere: ')] if nowhere else [])]


def levels(members, below):
    """Names of levels above the host: those that nest in each other, widest first, and the
    remaining levels.

    The nested levels are the longest chain; of equal chains the first. ``below`` maps each known
    level to the next narrower one. It is needed because the domains of few members may seem nested
    at levels that do not nest.
    """
    names = [level for level in (members[0]['domains'] if members else {}) if level != HOST]
    domains_of = [member['domains'] for member in members]
    chains: dict[str, list[str]] = {}  # the longest that ends with each level, widest first
    for level in names:
        inside = [
            chain
            for narrower, chain in chains.items()
            if _may_lie_in(narrower, level, below)
            # Each domain of the narrower level is in one domain of this one.
            and len({(domains.get(narrower), domains.get(level)) for domains in domains_of})
            == len({domains.get(narrower) for domains in domains_of})
        ]
        chains[level] = [level, *max(inside, key=len, default=[])]
    nested = max(chains.values(), key=len, default=[])
    return nested, [level for level in names if level not in nested]


def _may_lie_in(narrow, wide, below):
    """Whether a level is below another; True for levels that are not known."""
    if narrow not in below or wide not in below:
        return True
    while wide not in (narrow, HOST):
        wide = below[wide]
    return wide == narrow


def _is_alone(member, level, nested):
    """Whether a domain has its name from the one below, because its hosts report none."""
    narrower = [*nested, HOST][nested.index(level) + 1]
    return member['domains'][level] == member['domains'].get(narrower, member['host'])


def _host(member, beside):
    """Level and name of the host, with its domains of levels that do not nest."""
    others = ', '.join(f'{level} {member["domains"][level]}' for level in beside)
    return HOST, place(member) + (f' ({others})' if others else '')


def _rendered(root):
    """The tree as lines of text, without colours or cut names."""
    from rich.console import Console  # late: most verbs draw nothing
    from rich.text import Text
    from rich.tree import Tree

    def grow(branch, below):
        for key, inside in below.items():
            if isinstance(key, tuple):
                grow(branch.add(Text(' '.join(key))), inside)
            else:
                instance = inside['instance_uuid']
                where = f', instance {instance}' if instance else ''
                branch.add(Text(f'{key}  {inside["state"]}{where}'))

    tree = Tree(Text('the cloud'))
    grow(tree, root)
    console = Console(file=io.StringIO(), width=1000, color_system=None, legacy_windows=False)
    console.print(tree)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


# Templates, and their errors.


def validated(account):
    """The account of a template."""
    columns = {
        'Member': lambda row: row['path'],
        'Flavor': lambda row: row['flavor'] or 'inline',
        'vCPU': lambda row: row['vcpus'],
        'RAM (MiB)': lambda row: row['memory_mb'],
        'Disk (GiB)': lambda row: row['disk_gb'],
        'Zone': lambda row: row['availability_zone'] or '-',
    }
    policies = {
        'Policy': lambda row: row['name'],
        'Kind': lambda row: row['kind'],
        'Level': lambda row: row['level'],
        'Members': _sides,
        'Limits': _limits,
        'Weight': lambda row: (
            'required' if row['weight'] is None else tables.number(row['weight'])
        ),
    }
    number = len(account['policies'])
    counts = (
        f'{tables.count(len(account["members"]), "member")}, {number} '
        f'polic{"y" if number == 1 else "ies"}.'
    )
    lines = [tables.table(columns, account['members'])]
    lines += ['', tables.table(policies, account['policies'])] if account['policies'] else []
    lines += _warned(account['warnings'])
    lines += (
        ['', tables.fill(account['contradiction'], 'Contradiction: ')]
        if account['contradiction']
        else []
    )
    return '\n'.join([*lines, '', counts])


def _sides(row):
    """The number of members in a policy."""
    return (
        f'{len(row["members"])} to {len(row["others"])}'
        if row['others']
        else str(len(row['members']))
    )


def _limits(row):
    if row['kind'] == 'anti-affinity':
        return f'at most {row["most"]} in one'
    if row['kind'] != 'spread':
        return '-'
    skew = '' if row['max_skew'] is None else f', skew {row["max_skew"]}'
    return f'at least {row["min_domains"]}{skew}'


def mistake(path, where, line, column, why):
    """The place of an error in a template, in the format of compilers: `shop.yaml:7:12:
    resources.web: why`."""
    place = ''.join(f'{number}:' for number in (line, column) if number is not None)
    return f'{path}:{place} {where}: {why}'


def refusal(refused):
    """Why a group cannot be placed."""
    return tables.fill(str(refused), 'nova-sched-manage: ')


def topology(answer):
    """The levels with their numbers of domains, and warnings for the operator."""
    columns = {'Level': operator.itemgetter(0), 'Domains': operator.itemgetter(1)}
    return '\n'.join([tables.table(columns, answer['domains'].items()), *answer['warnings']])
