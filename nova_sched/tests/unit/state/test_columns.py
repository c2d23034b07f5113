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
"""The columns against a plain list of dicts, through random changes; the arithmetic of one
resource class."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nova_sched.state.columns import INTERNED, Columns, ResourceColumns, column, declared
from nova_sched.state.report import Inventory
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import table

CLASSES = ['VCPU', 'MEMORY_MB', 'CUSTOM_GOLD']
TRAITS = [f'T{number}' for number in range(70)]
PLAIN = [name for name in declared(Columns) if name not in INTERNED]


class ColumnsMachine(RuleBasedStateMachine):
    """Rows come, change and go; the last row takes the place of one that goes."""

    def __init__(self):
        super().__init__()
        self.columns = Columns(capacity=1)
        self.model = []

    @rule()
    def add(self):
        assert self.columns.add() == len(self.model)
        empty = {'traits': frozenset(), 'used': {}, 'inventories': {}}
        self.model.append({**dict.fromkeys(PLAIN, 0), **dict.fromkeys(INTERNED), **empty})

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data):
        row = data.draw(self.rows())
        assert self.columns.remove(row) == len(self.model) - 1
        self.model[row] = self.model[-1]
        self.model.pop()

    @precondition(lambda self: self.model)
    @rule(data=st.data(), name=st.sampled_from(PLAIN), value=st.integers(0, 1))
    def set_scalar(self, data, name, value):
        row = data.draw(self.rows())
        getattr(self.columns, name)[row] = self.model[row][name] = value

    @precondition(lambda self: self.model)
    @rule(data=st.data(), name=st.sampled_from(INTERNED), value=st.sampled_from([None, 'a', 'b']))
    def set_interned(self, data, name, value):
        row = data.draw(self.rows())
        self.columns.intern(name, row, value)
        self.model[row][name] = value

    @precondition(lambda self: self.model)
    @rule(data=st.data(), traits=st.frozensets(st.sampled_from(TRAITS), max_size=3))
    def set_traits(self, data, traits):
        row = data.draw(self.rows())
        self.columns.set_traits(row, traits)
        self.model[row]['traits'] = traits

    @precondition(lambda self: self.model)
    @rule(data=st.data(), name=st.sampled_from(CLASSES), total=st.none() | st.integers(0, 9))
    def put_resource(self, data, name, total):
        row = data.draw(self.rows())
        inventory = None if total is None else Inventory(total, min(total, 1), 2.0)
        self.columns.resource(name).put(row, inventory)
        self.model[row]['inventories'][name] = inventory

    @precondition(lambda self: any(row['inventories'] for row in self.model))
    @rule(data=st.data())
    def take(self, data):
        have = [(at, name) for at, row in enumerate(self.model) for name in row['inventories']]
        row, name = data.draw(st.sampled_from(have))
        used = self.model[row]['used'].get(name, 0)
        amount = data.draw(st.integers(-used, 9))
        self.columns.resource(name).take(row, amount)
        self.model[row]['used'][name] = used + amount

    def rows(self):
        return st.integers(0, len(self.model) - 1)

    @invariant()
    def the_columns_are_the_rows(self):
        assert len(self.columns) == len(self.model)
        for name in PLAIN:
            assert getattr(self.columns, name).tolist() == [row[name] for row in self.model]
        for name in INTERNED:
            values = self.columns.interned[name].map(
                getattr(self.columns, name), lambda value: value, object
            )
            assert values.tolist() == [row[name] for row in self.model]
        for trait in TRAITS:
            number = self.columns.traits.find(trait)
            expected = [trait in row['traits'] for row in self.model]
            assert (number is not None) is any(expected)
            if number is not None:
                assert self.columns.trait_sets.has(number, len(self.model)).tolist() == expected
        for name, resource in self.columns.resources.items():
            assert len(resource.total) == len(self.model)
            for at, row in enumerate(self.model):
                inventory, used = row['inventories'].get(name), row['used'].get(name, 0)
                if name in row['inventories']:
                    self.check_resource(resource, at, inventory or Inventory(0), used)
                else:
                    assert not resource.fits(1)[at]

    @staticmethod
    def check_resource(resource, at, inventory, used):
        seen = (
            resource.total[at],
            resource.reserved[at],
            resource.used[at],
            resource.free[at],
            resource.unused[at],
        )
        idle = inventory.total - inventory.reserved - used
        assert seen == (inventory.total, inventory.reserved, used, inventory.capacity - used, idle)
        fits = min(inventory.capacity - used, inventory.largest) >= 1
        assert resource.fits(1)[at] == fits


ColumnsMachine.TestCase.settings = settings(max_examples=cases(40), stateful_step_count=30)
TestColumns = ColumnsMachine.TestCase


@table(
    'inventory, used, amount, fits',
    {
        'capacity is 9, but no more than 8': (Inventory(8, reserved=2, ratio=1.5), 0, 8, True),
        'exact fit': (Inventory(8, reserved=2, ratio=1.5), 1, 8, True),
        'one too many': (Inventory(8, reserved=2, ratio=1.5), 2, 8, False),
        'above the total': (Inventory(8, reserved=2, ratio=1.5), 0, 9, False),
        'a node over its capacity takes nothing': (Inventory(8), 9, 0, False),
        'nothing asked needs no step': (Inventory(8, step_size=4), 0, 0, True),
        'none of it': (None, 0, 1, False),
    },
)
def test_fits(inventory, used, amount, fits):
    resource = ResourceColumns(1, 1)
    resource.put(0, inventory)
    resource.take(0, used)
    assert resource.fits(amount).tolist() == [fits]


def test_a_new_inventory_keeps_the_use():
    resource = ResourceColumns(1, 1)
    resource.put(0, Inventory(8))
    resource.take(0, 5)
    resource.put(0, Inventory(4, ratio=2.0))
    assert (resource.used[0], resource.free[0], resource.unused[0], resource.ratio[0]) == (
        5,
        3,
        -1,
        2.0,
    )


def test_every_column_has_a_type():
    columns = Columns()
    columns.add()
    assert {name: getattr(columns, name).dtype for name in declared(Columns)} == {
        name: np.dtype(kind) for name, kind in declared(Columns).items()
    }


def test_columns_are_listed_while_their_class_changes():
    class Owner:
        size = column(np.int64)

    class Change:
        """Asked what it is, it adds to its owner's class, as another thread may."""

        @property
        def __class__(self):
            Owner.more = 1
            return Change

    Owner.change = Change()
    assert declared(Owner) == {'size': np.dtype(np.int64)}
    assert Owner.more
