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

"""The members of a group as a tree of failure domains. Pure functions of the API's documents."""

import collections

HOST = 'host'


def tree(members):
    """Nested branches, the widest domain first. A branch is a mapping of its ``level``, ``name``,
    ``branches`` and ``members``; members without a place are in the branch of level None."""
    root = {'level': '', 'name': '', 'branches': [], 'members': []}
    for member in members:
        at = root
        for level, name in _way(member):
            at = _branch(at, level, name)
        at['members'].append(member)
    return root['branches']


def _way(member):
    """The domains of a member, the widest first."""
    domains = [(level, name) for level, name in member['domains'].items() if name is not None]
    if not domains and not member['host']:
        return [(None, 'no place')]
    wide_first = [(level, name) for level, name in reversed(domains) if level != HOST]
    way = [*wide_first, (HOST, member['host'])] if member['host'] else wide_first
    # A domain with the name of a narrower one says nothing new: the node reports none there.
    names = [name for _, name in way]
    return [one for place, one in enumerate(way, 1) if one[1] not in names[place:]]


def _branch(at, level, name):
    for one in at['branches']:
        if (one['level'], one['name']) == (level, name):
            return one
    made = {'level': level, 'name': name, 'branches': [], 'members': []}
    at['branches'].append(made)
    return made


def states(members):
    """How many members are in each state."""
    return dict(collections.Counter(one['state'] for one in members))
