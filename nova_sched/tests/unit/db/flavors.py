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
"""What the list of flavors keeps on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine on the newest schema, with empty
tables.
"""

from concurrent import futures

import pytest

from nova_sched import errors
from nova_sched.db.flavors import SqlFlavors
from nova_sched.tests.builders import NOW


def flavor(name='tiny', **facts):
    known = {
        'name': name,
        'flavorid': name,
        'vcpus': 1,
        'memory_mb': 512,
        'root_gb': 1,
        'ephemeral_gb': 0,
    }
    return {**known, 'swap': 0, 'extra_specs': {}, 'created_s': NOW, **facts}


class Flavors:
    @pytest.fixture
    def flavors(self, database):
        return SqlFlavors(database)

    def test_without_flavors_there_is_a_version(self, flavors):
        assert flavors.list() == (0, [])

    def test_flavors_are_listed_by_name(self, flavors):
        extra_specs = {'b:ü': '1', 'a': 'x'}
        made = [
            flavor('tiny'),
            flavor('Big', vcpus=8, extra_specs=extra_specs),
            flavor('small', swap=7),
        ]
        assert [flavors.create(one) for one in made] == [True] * 3
        assert flavors.list() == (3, [made[1], made[2], made[0]])

    def test_every_change_raises_the_version_and_nothing_else_does(self, flavors):
        seen = []
        for change in (
            lambda: flavors.create(flavor()),
            lambda: flavors.create(flavor(created_s=NOW + 1)),
            lambda: flavors.delete('tiny'),
            lambda: flavors.create(flavor()),
        ):
            change()
            seen.append(flavors.list()[0])
        assert seen == [1, 1, 2, 3]

    def test_an_equal_one_stays_as_old_as_it_is(self, flavors):
        first = flavor(extra_specs={'a': '1', 'b': '2'})
        flavors.create(first)
        assert not flavors.create(flavor(created_s=NOW + 1, extra_specs={'b': '2', 'a': '1'}))
        assert flavors.list()[1] == [first]

    @pytest.mark.parametrize(
        'other, name, why',
        [
            pytest.param({'vcpus': 2}, 'tiny', 'its vcpus is 1, not 2', id='size'),
            pytest.param({'vcpus': 2, 'flavorid': '7'}, 'tiny',
                         'its flavorid is tiny, not 7, its vcpus is 1, not 2', id='two things'),
            pytest.param({'extra_specs': {'a': '1'}}, 'tiny',
                         'its extra_specs is {}, not {"a": "1"}', id='extra specs'),
            pytest.param({'name': 'small', 'flavorid': 'tiny'}, 'tiny',
                         'it has the ID tiny', id='the same ID'),
        ],
    )  # fmt: skip
    def test_another_one_of_that_name_is_refused(self, flavors, other, name, why):
        flavors.create(flavor())
        with pytest.raises(errors.FlavorExists) as refused:
            flavors.create(flavor(**other))
        assert refused.value.args == (name, why)
        assert flavors.list() == (1, [flavor()])

    def test_names_that_differ_in_case_differ(self, flavors):
        flavors.create(flavor('tiny'))
        assert flavors.create(flavor('Tiny'))

    @pytest.mark.parametrize('name', ['small', 'TINY'])
    def test_what_is_not_there_cannot_go(self, flavors, name):
        flavors.create(flavor())
        with pytest.raises(errors.FlavorNotFound):
            flavors.delete(name)
        assert flavors.list() == (1, [flavor()])

    def test_many_add_at_once(self, flavors):
        def add(number):
            return flavors.create(flavor(f'f{number % 4}'))

        with futures.ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(add, range(12))) == 4
        version, rows = flavors.list()
        assert (version, [row['name'] for row in rows]) == (4, ['f0', 'f1', 'f2', 'f3'])
