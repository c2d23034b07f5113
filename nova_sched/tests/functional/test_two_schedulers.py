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
"""Two schedulers on one database: each learns of the other's changes at its next poll."""

import concurrent.futures
import contextlib
import threading

import oslo_messaging as messaging
import pytest
from oslo_context.context import RequestContext

from nova_sched import errors, objects, rpc
from nova_sched.db import engine as db_engine
from nova_sched.db.jobs import SqlJobTable
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional import harness
from nova_sched.tests.functional.harness import (
    SETTINGS,
    compute_node,
    eventually,
    outcome,
    spec,
)
from nova_sched.tests.functional.test_api import template
from nova_sched.tests.options import settings

OFTEN_S = 0.1


class Two:
    """Both daemons, and what each knows inside."""

    def __init__(self, one, two):
        self.both = self.one, self.two = one, two

    def add(self, *names):
        self.one.add(*names, instances=[])
        self.all_know(lambda cluster: {node.host for node in cluster} >= set(names))

    def all_know(self, is_so):
        """Until each cluster is as it should be."""
        for daemon in self.both:
            engine = daemon.service.scheduler
            eventually(lambda engine=engine: engine.call(is_so, engine._cluster))

    def crowd(self):
        return sorted(daemon.service.scheduler.position_and_count for daemon in self.both)


@contextlib.contextmanager
def two_daemons(bus_url, folder, refresh_s=OFTEN_S):
    with contextlib.ExitStack() as end:
        daemons = [harness.Daemon(bus_url, folder) for _ in range(2)]
        for daemon in daemons:
            daemon.start()
            end.callback(daemon.stop)
        end.enter_context(settings({**SETTINGS, 'claims.refresh_interval': refresh_s}))
        two = Two(*daemons)
        eventually(lambda: two.crowd() == [(0, 2), (1, 2)])
        yield two


@pytest.fixture(scope='module')
def two(bus_url, tmp_path_factory):
    with two_daemons(bus_url, tmp_path_factory.mktemp('two')) as made:
        made.add('a', 'b')
        yield made


def test_a_claim(two):
    (host,) = two.one.boot('claimed')
    two.all_know(
        lambda cluster: (
            [cluster.node(one.node_uuid).host for one in cluster.claims_of(uuid_of('claimed'))]
            == [host]
        )
    )


def test_a_claim_that_ends(two):
    two.one.boot('short')
    two.all_know(lambda cluster: cluster.claims_of(uuid_of('short')))
    two.one.claims.abort_claim(uuid_of('short'))
    two.all_know(lambda cluster: not cluster.claims_of(uuid_of('short')))


def test_a_report(two):
    two.one.stats.update_resource_stats('a', compute_node('a', vcpus=77), [], None, None)
    two.all_know(lambda cluster: cluster.find('a', 'a').usage('VCPU').total == 77)


def test_a_new_host_and_one_that_goes(two):
    two.add('c')
    two.one.stats.remove_node('c', 'c')
    two.all_know(lambda cluster: cluster.find('c', 'c') is None)


def test_an_aggregate(two):
    zone = objects.Aggregate(id=7, uuid=uuid_of('zone'), name='zone', hosts=['a'], metadata={})
    two.one.scheduler.update_aggregates([zone])
    two.all_know(lambda cluster: cluster.hosts.aggregates.get(7) is not None)
    two.one.scheduler.delete_aggregate(zone)
    two.all_know(lambda cluster: cluster.hosts.aggregates.get(7) is None)


def test_a_service(two):
    service = objects.Service(disabled=True, disabled_reason='broken', forced_down=False)
    two.one.stats.update_service('b', service)
    two.all_know(lambda cluster: cluster.service('b').disabled)
    service = objects.Service(disabled=False, disabled_reason=None, forced_down=False)
    two.one.stats.update_service('b', service)
    two.all_know(lambda cluster: not cluster.service('b').disabled)


def test_two_schedulers_have_one_quota(two):
    """Groups that both plan at the same time use no more than the project may have."""
    engine = db_engine.create(f'sqlite:///{two.one.database}')
    SqlJobTable(engine).set_limit('evil', 'planned_servers', 2)
    engine.dispose()
    context = RequestContext(project_id='evil', user_id='eve', overwrite=False)

    def create(number):
        work = two.both[number % 2].groups.create
        return outcome(lambda: work(template(1), context=context))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(create, range(8)))
    made = [one.uuid for one in found if not isinstance(one, Exception)]
    assert {type(one) for one in found if isinstance(one, Exception)} <= {errors.QuotaExceeded}
    held = [row for row in two.one.table('claims') if 'evil' in row]
    assert (len(made), len(held)) == (2, 2)
    for uuid in made:
        two.two.groups.delete(uuid)


def test_figures_are_in_the_list(two):
    two.one.boot('counted')
    rows = eventually(
        lambda: [row for row in two.one.table('schedulers') if '"placed": 0' not in row[-1]]
    )
    assert {row[1] for row in rows} == {harness.HOST}
    assert len(two.one.table('schedulers')) == 2


def test_change_events_of_an_older_release(two):
    """A scheduler of an older release sends them to a topic on which no other one listens."""
    words = {'exchange': rpc.EXCHANGE, 'topic': 'nova_sched_news', 'namespace': 'news'}
    target = messaging.Target(**words, version='1.0', fanout=True)
    caller = messaging.get_rpc_client(
        two.one.bus, target, serializer=messaging.NoOpSerializer()
    ).prepare(retry=0)
    for number in range(3):
        told = {'made_s': 1.0, 'commits': [], 'looks': {}, 'tables': True}
        caller.cast({}, 'changed', origin=uuid_of('older'), **told)
        assert two.one.scheduler.select_destinations(spec(), [uuid_of(f'after {number}')])


def test_one_that_is_stopped_leaves_nothing_behind(bus_url, tmp_path):
    before = set(threading.enumerate())
    with two_daemons(bus_url, tmp_path) as two:
        database = two.one
        assert len(database.table('schedulers')) == 2
    assert database.table('schedulers') == []
    left = [thread.name for thread in set(threading.enumerate()) - before]
    assert [name for name in left if name.startswith('nova-sched')] == []
