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
"""The list of queues follows the flavors in the database, and everybody is told."""

import time

import pytest

from nova_sched import errors
from nova_sched.claims import Changes, ServiceFacts
from nova_sched.db import engine, schema
from nova_sched.db.flavors import SqlFlavors
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.extensions.queues.manager.register import Register
from nova_sched.tests.builders import NOW, aggregate
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.managed_queues import ROWS, Queues

TINY, LARGE = ROWS


class World:
    def __init__(self, folder):
        self.engine = engine.create(f'sqlite:///{folder}/db.sqlite')
        schema.upgrade(self.engine)
        self.queues = Queues()
        self.told, self.changes, self.deaf = [], Changes(), 0

    def register(self, *specials):
        return Register(
            SqlFlavors(self.engine), specials, self.queues, self.tell, self.read_changes
        )

    def tell(self, version):
        if self.deaf:
            self.deaf -= 1
            raise errors.NoAnswer('catalogue_changed', 'the bus is away')
        self.told.append((version, self.offered()))

    def offered(self):
        return sorted(name for name in self.queues.there if name.startswith('flavor.'))

    def read_changes(self):
        found, self.changes = self.changes, Changes()
        return found


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.engine.dispose()


def test_a_flavor_is_a_queue(world):
    register = world.register('zone:north')
    register.create(TINY)
    assert world.offered() == ['flavor.tiny', 'flavor.tiny+zone:north']
    assert [queue.name for queue in register.catalogue.queues] == ['tiny', 'tiny+zone:north']
    version, (row,) = register.flavors()
    assert (version, row['flavorid']) == (1, 'tiny')


def test_a_flavor_is_made_at_the_time_of_the_database(world, monkeypatch):
    monkeypatch.setattr(time, 'time', lambda: NOW)
    flavors = SqlFlavors(world.engine)
    before_s = flavors.now_s()
    made = world.register().create(TINY)
    assert before_s <= made['created_s'] <= flavors.now_s()


def test_a_queue_is_there_before_it_is_announced(world):
    world.register().create(TINY)
    assert world.told == [(1, ['flavor.tiny'])]


def test_what_waits_in_a_queue_that_ends_falls_back(world):
    register = world.register()
    register.create(TINY)
    register.create(LARGE)
    for body in (b'1', b'2'):
        world.queues.publish('flavor.tiny', body)
    register.delete('tiny')
    assert world.offered() == ['flavor.large']
    assert world.queues.there['fallback'] == [b'1', b'2']
    assert [version for version, _ in world.told] == [1, 2, 3]


def test_another_manager_follows(world):
    one, other = world.register(), world.register()
    one.create(TINY)
    one.create(LARGE)
    other.refresh()
    one.delete('large')
    other.refresh()
    assert [flavor.name for flavor in other.catalogue.flavors] == ['tiny']
    assert world.offered() == ['flavor.tiny']


def test_the_broker_is_away_while_a_queue_ends(world):
    register = world.register()
    register.create(TINY)
    world.queues.away = 1
    with pytest.raises(errors.BrokerUnavailable):
        register.delete('tiny')
    register.refresh()
    assert (world.offered(), register.catalogue.flavors) == ([], ())


def test_the_broker_is_away_while_a_queue_is_made(world):
    register = world.register()
    register.refresh()
    world.queues.away = 1
    with pytest.raises(errors.BrokerUnavailable):
        register.create(TINY)
    register.refresh()
    assert world.offered() == ['flavor.tiny']


def test_who_could_not_be_told_is_told_later(world):
    world.deaf = 1
    register = world.register()
    register.create(TINY)
    assert world.told == []
    register.refresh()
    register.refresh()
    assert [version for version, _ in world.told] == [1]


def test_one_and_the_same_flavor_twice(world):
    register = world.register()
    first = register.create(TINY)
    assert register.create(TINY) == first
    assert register.catalogue.version == 1
    with pytest.raises(errors.FlavorExists):
        register.create({**TINY, 'vcpus': 2})


@each_afresh(
    'row',
    {
        'no amounts': {'name': 'tiny'},
        'no number': {**TINY, 'vcpus': '1'},
        'a long ID': {**TINY, 'flavorid': 'x' * 256},
        'an extra spec': {**TINY, 'extra_specs': {'resources:VCPU': 'many'}},
    },
)
def test_a_flavor_that_makes_no_sense_changes_nothing(world, row):
    register = world.register()
    with pytest.raises(errors.InvalidRequest):
        register.create(row)
    assert (register.flavors()[1], world.offered()) == ([], [])


def test_an_unknown_flavor(world):
    with pytest.raises(errors.FlavorNotFound):
        world.register().delete('tiny')


def test_what_a_host_is_told(world):
    register = world.register('zone:north')
    register.create(TINY)
    world.changes = Changes(
        aggregates=(
            aggregate(1, ['a', 'b'], ssd='true'),
            aggregate(2, ['b'], availability_zone='north'),
            aggregate(3, ['b'], ssd='false'),
        ),
        services=(ServiceFacts('a', disabled=True), ServiceFacts('b')),
    )
    register.refresh()
    plain = register.plain('a')
    assert Catalogue.from_plain(plain) == register.catalogue
    assert [(one['id'], one['hosts']) for one in plain['aggregates']] == [(1, ['a']), (2, [])]
    assert (plain['disabled'], register.plain('b')['disabled']) == (True, False)
    assert [version for version, _ in world.told] == [1, 1]


@each_afresh(
    'changes, news',
    {
        'nothing': (Changes(), 0),
        'a service that is enabled as before': (Changes(services=(ServiceFacts('a'),)), 0),
        'a service': (Changes(services=(ServiceFacts('a', disabled=True),)), 1),
        'an aggregate': (Changes(aggregates=(aggregate(1, ['a']),)), 1),
    },
)
def test_what_is_news(world, changes, news):
    register = world.register()
    register.refresh()
    before = len(world.told)
    world.changes = changes
    register.refresh()
    assert len(world.told) - before == news


def test_what_waits_where(world):
    register = world.register()
    register.create(TINY)
    world.queues.publish('flavor.tiny', b'1')
    del world.queues.there['results']
    assert register.facts() == [
        {'name': 'fallback', 'queue': 'fallback', 'ready': 0, 'consumers': 0},
        {'name': 'results', 'queue': 'results', 'ready': None, 'consumers': None},
        {'name': 'tiny', 'queue': 'flavor.tiny', 'ready': 1, 'consumers': 0},
    ]


@each_afresh(
    'marker, limit, seen',
    {
        'the first': (None, 2, ['fallback', 'results']),
        'all that are left': ('results', None, ['flavor.fallback', 'flavor.tiny']),
        "a flavor with a queue's name": ('flavor.fallback', 1, ['flavor.tiny']),
        'none is left': ('flavor.tiny', 1, []),
    },
)
def test_queues_page_by_page(world, marker, limit, seen):
    register = world.register()
    register.create(TINY)
    register.create({**TINY, 'name': 'fallback', 'flavorid': 'x'})
    assert [one['queue'] for one in register.facts(marker, limit)] == seen


def test_queues_after_one_that_is_not_there(world):
    with pytest.raises(errors.NotFound, match=r'Queue flavor\.gone is not known'):
        world.register().facts('flavor.gone')


def test_a_version_that_is_known_is_no_news(world):
    register = world.register()
    register.create(TINY)
    register.hear(1)
    assert not register.news.is_set()
    register.hear(2)
    assert register.news.is_set()
