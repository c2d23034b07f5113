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
"""What a run of the tests leaves out."""

from types import SimpleNamespace

import pytest

from nova_sched.tests import cases


class Item:
    """A test with these parameters and marks."""

    def __init__(self, name, *params, marks=()):
        self.nodeid, self._marks = f'test_x.py::{name}[{"-".join(map(str, params))}]', marks
        if params:
            self.callspec = SimpleNamespace(params=dict(enumerate(params)))

    def get_closest_marker(self, name):
        return name in self._marks


def kept(monkeypatch, level, *items):
    for name, value in (('IS_BRIEF', level == ''), ('IS_THOROUGH', level == 'thorough')):
        monkeypatch.setattr(cases, name, value)
    gone, left = [], list(items)
    hook = SimpleNamespace(pytest_deselected=lambda items: gone.extend(items))
    cases.deselect(SimpleNamespace(hook=hook), left)
    assert sorted(map(id, gone + left)) == sorted(map(id, items))
    return [items.index(one) for one in left]


@pytest.mark.parametrize('level, left', [('', [0]), ('whole', [0, 1]), ('thorough', [0, 1, 2])])
def test_marks(monkeypatch, level, left):
    items = Item('a'), Item('b', marks=['whole']), Item('c', marks=['thorough'])
    assert kept(monkeypatch, level, *items) == left


def test_each_test_keeps_one_database_and_all_its_other_cases(monkeypatch):
    names = [f'test_{number}' for number in range(40)]
    items = [Item(name, one, case) for name in names for one in cases.DATABASES for case in (1, 2)]
    left = [items[place] for place in kept(monkeypatch, '', *items)]
    assert len(left) == 2 * len(names)
    counts = [
        sum(one in item.callspec.params.values() for item in left) for one in cases.DATABASES
    ]
    assert sum(counts) == len(left)
    assert min(counts) > len(left) / 4
    assert len({item.nodeid.partition('[')[0] for item in left}) == len(names)
    assert kept(monkeypatch, 'whole', *items) == list(range(len(items)))


def test_what_has_no_database_stays(monkeypatch):
    items = [Item('a', 'sqlite'), Item('b', 1.5, None), Item('c')]
    assert kept(monkeypatch, '', *items) == [0, 1, 2]
