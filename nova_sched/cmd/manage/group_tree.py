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

"""The members of a group as a tree of domains."""

import io

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from nova_sched.cmd.manage import group_pages, tables

HOST = 'host'


def drawn(members, below_of):
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
    made = Tree(Text('the cloud'))
    _grow(made, root)
    nowhere = [member['path'] for member in members if member['host'] is None]
    lines = _rendered(made) if placed else []
    return [*lines, *([tables.fill(', '.join(nowhere), 'Nowhere: ')] if nowhere else [])]


def levels(members, below):
    """Names of levels above the host: those that nest in each other, widest first, and the
    remaining levels.

    The nested levels are the longest chain; of equal chains the first. ``below`` maps each known
    level to the next narrower one. It is needed because the domains of few members may seem nested
    at levels that do not nest.
    """
    names = [level for level in (members[0]['domains'] if members else {}) if level != HOST]
    chains: dict[str, list[str]] = {}  # the longest that ends with each level, widest first
    for level in names:
        inside = [
            chain
            for one, chain in chains.items()
            if _may_lie_in(one, level, below) and _do_lie_in(one, level, members)
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


def _do_lie_in(narrow, wide, members):
    """Whether each domain of a level is in one domain of the other."""
    domains = [member['domains'] for member in members]
    return len({(one.get(narrow), one.get(wide)) for one in domains}) == len(
        {one.get(narrow) for one in domains}
    )


def _is_alone(member, level, nested):
    """Whether a domain has its name from the one below, because its hosts report none."""
    narrower = [*nested, HOST][nested.index(level) + 1]
    return member['domains'][level] == member['domains'].get(narrower, member['host'])


def _host(member, beside):
    """Level and name of the host, with its domains of levels that do not nest."""
    others = ', '.join(f'{level} {member["domains"][level]}' for level in beside)
    return HOST, group_pages.place(member) + (f' ({others})' if others else '')


def _grow(branch, below):
    for key, inside in below.items():
        if isinstance(key, tuple):
            _grow(branch.add(Text(' '.join(key))), inside)
        else:
            instance = f', instance {inside["instance_uuid"]}' if inside['instance_uuid'] else ''
            branch.add(Text(f'{key}  {inside["state"]}{instance}'))


def _rendered(made):
    """Lines of text, without colours or cut names."""
    console = Console(file=io.StringIO(), width=1000, color_system=None, legacy_windows=False)
    console.print(made)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]
