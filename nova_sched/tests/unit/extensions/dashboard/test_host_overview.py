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

"""The hosts as a page has them, and which cells have changed."""

import dataclasses
import threading
import time

import pytest

from nova_sched import errors
from nova_sched.claims.values import ServiceFacts
from nova_sched.extensions.dashboard import host_overview
from nova_sched.extensions.dashboard.host_overview import HEADS_S, OLD_S, REFRESH_S, HostOverview
from nova_sched.groups.topology import DomainTopology
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.report import Inventory, Report
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.stores import MemoryClaimStore


def report(host, used=0, **fields):
    inventories = {'VCPU': Inventory(10), 'CUSTOM_X': Inventory(4)}
    return Report(uuid_of(host), host, host, inventories, {'VCPU': used}, **fields)


class World:
    def __init__(self, **words):
        self.now_s = 0.0
        self.store = MemoryClaimStore()
        self.store.clock = lambda: 1000.0 + self.now_s
        self.overview = HostOverview(
            self.store, DomainTopology(), 60, 'nova', clock=lambda: self.now_s, **words
        )

    def later(self, seconds=REFRESH_S):
        self.now_s += seconds


@pytest.fixture
def world():
    made = World()
    made.store.report([report('a', 5, traits=frozenset(['T'])), report('b')])
    return made


def test_a_board(world):
    world.store.set_aggregate(1, HostAggregate(1, 'fast', frozenset('a'), {'rack': 'r1'}))
    found = world.overview.board()
    assert found['hosts'] == ['a', 'b']
    assert found['resources'] == ['VCPU', 'CUSTOM_X']
    assert [found['racks'][number] for number in found['rack']] == ['r1', '']
    assert [found['trait_sets'][number] for number in found['traits_of']] == [[0], []]
    assert [found['aggregate_sets'][number] for number in found['aggregates_of']] == [[0], []]
    assert found['cells'] == [[0, 0, [50, 0]], [0, 0, [0, 0]]]


def test_only_what_has_changed(world):
    version = world.overview.board()['version']
    world.store.report([report('b', 9)])
    assert world.overview.changes(version) == (version, [])  # it has just polled
    world.later()
    after, changed = world.overview.changes(version)
    assert changed == [[1, 0, 0, [90, 0]]]
    assert world.overview.changes(after) == (after, [])


def test_what_lasts_is_not_drawn_again_for_usage(world, monkeypatch):
    version = world.overview.board()['version']
    monkeypatch.setattr(world.overview._drawing, 'lasting', None)  # not called
    world.store.report([report('b', 9, stats={'servers': '3'})])
    world.later()
    assert world.overview.changes(version)[1] == [[1, 0, 0, [90, 0]]]


@pytest.mark.parametrize(
    'changed',
    [
        report('b', traits=frozenset(['T'])),
        report('b', stats={'rack': 'r2'}),
        dataclasses.replace(report('b'), nodename='other'),
        dataclasses.replace(report('b'), inventories={'CUSTOM_Y': Inventory(1)}),
    ],
    ids=['trait', 'rack', 'name', 'resource class'],
)
def test_a_node_whose_place_changes_makes_a_new_board(world, changed):
    before = world.overview.board()
    world.store.report([changed])
    world.later()
    assert world.overview.changes(before['version'])[1] is None
    assert world.overview.board() != before


def test_several_pages_are_told_the_same(world):
    first = world.overview.board()['version']
    world.store.report([report('b', 9)])
    world.later()
    second, changed = world.overview.changes(first)
    assert world.overview.changes(first)[1] is changed
    world.store.report([report('a', 1, traits=frozenset(['T']))])
    world.later()
    assert [row for row, *_ in world.overview.changes(second)[1]] == [0]
    assert [row for row, *_ in world.overview.changes(first)[1]] == [0, 1]


def test_a_host_is_disabled(world):
    version = world.overview.board()['version']
    world.store.set_service(ServiceFacts('a', disabled=True))
    assert world.overview.facts_now().service('a').disabled
    state = world.overview.board()['states'].index('disabled')
    assert world.overview.changes(version)[1] == [[0, state, 0, [50, 0]]]


def test_a_change_during_the_poll_of_another_thread(world):
    """Its answer shows it, and so do the next pages."""
    world.overview.facts()
    world.later()
    read_nodes, told = world.store.read_nodes, []

    def change():
        world.store.set_service(ServiceFacts('a', disabled=True))
        told.append(world.overview.facts_now().service('a').disabled)

    def slow(nodes):
        found = read_nodes(nodes)
        world.store.read_nodes = read_nodes
        changing.start()
        while not world.store.changes({}).services[0].disabled:
            time.sleep(0.001)
        return found

    changing = threading.Thread(target=change)
    world.store.set_service(ServiceFacts('a'))
    world.store.read_nodes = slow
    world.overview.facts()
    changing.join()
    assert told == [True]
    assert world.overview.facts().service('a').disabled


def test_a_host_falls_silent(world):
    version = world.overview.board()['version']
    world.later(120)
    changed = world.overview.changes(version)[1]
    assert [world.overview.board()['states'][cell[1]] for cell in changed] == ['down', 'down']


def test_hosts_that_are_read_from_nova():
    """Only Nova knows their states; a node is stored again when a scheduler reads it."""
    world = World(reads_nova=True)
    world.store.report([report('a')])
    board = world.overview.board()
    assert [board['states'][cell[0]] for cell in board['cells']] == ['unknown']
    world.later(120)
    assert world.overview.changes(board['version'])[1] == []
    assert world.overview.facts().seen_s('a') is None


@each('version', [None, '', 'x-1', 'nonsense', '-'])
def test_an_unknown_version(world, version):
    assert world.overview.changes(version)[1] is None


def test_hosts_come_and_go(world):
    """A new page does not wait for a poll, but is not older than OLD_S."""
    before = world.overview.board()
    world.store.report([report('c')])
    world.later()
    assert world.overview.board() == before
    assert world.overview.changes(before['version'])[1] is None
    assert world.overview.board()['hosts'] == ['a', 'b', 'c']
    world.store.remove_node(uuid_of('a'))
    world.later(OLD_S + REFRESH_S)
    assert world.overview.board()['hosts'] == ['b', 'c']
    assert [node.report.host for node in world.overview.facts().nodes] == ['b', 'c']


def test_a_page_does_not_wait_for_the_poll_of_another(world):
    version = world.overview.board()['version']
    world.store.report([report('b', 9)])
    world.later()
    with world.overview._lock:  # another thread polls
        assert world.overview.changes(version) == (version, [])
    assert world.overview.changes(version)[1] == [[1, 0, 0, [90, 0]]]


def test_nothing_is_made_again_in_a_quiet_cloud(world):
    before = world.overview.facts()
    world.later()
    assert world.overview.facts() is before
    world.later(HEADS_S)
    assert world.overview.facts() is not before


@pytest.mark.parametrize('method', ['changes', 'now_s'])
def test_a_look_that_fails_loses_no_change(world, monkeypatch, method):
    world.overview.board()
    world.store.report([report('c')])
    world.later()
    with monkeypatch.context() as patch:
        patch.setattr(world.store, method, unavailable)
        with pytest.raises(errors.StoreUnavailable):
            world.overview.facts()
    assert len(world.overview.facts().nodes) == 3
    assert world.overview.board()['hosts'] == ['a', 'b', 'c']
    assert len(world.overview.board()['cells']) == 3


def unavailable(*_):
    raise errors.StoreUnavailable('the database is away')


def test_a_page_does_not_wait_for_ever_for_the_first_poll(world, monkeypatch):
    monkeypatch.setattr(host_overview, 'FIRST_S', 0.01)
    with world.overview._lock, pytest.raises(errors.StoreUnavailable, match='not read'):
        world.overview.board()  # another thread polls
    assert world.overview.board()['hosts'] == ['a', 'b']
