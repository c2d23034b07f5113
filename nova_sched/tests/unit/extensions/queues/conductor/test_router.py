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
"""What a conductor gets of its router, by queues and by the scheduler."""

import threading

import pytest

from nova_sched import errors, objects
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.db.jobs import SqlJobTable
from nova_sched.extensions.queues import jobs, messages
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.conductor import router
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.managed_queues import (
    CATALOGUE,
    CELL,
    LARGE,
    TINY,
    ManagedQueues,
    job,
    result,
    spec,
)

SERVER, OTHER = uuid_of('server'), uuid_of('other')
NOTHING = {}


class Source:
    catalogue = CATALOGUE


class RoutedQueues(ManagedQueues):
    """Managed queues, and a router that sends jobs to them."""

    def __init__(self, folder, *hosts, script=(), limits=None, job_table=SqlJobTable, **settings):
        super().__init__(folder, *hosts, script=script)
        self.job_table = job_table(self.engine)
        usual = {'timeout_s': 5.0, 'query_s': 0.05, 'joined_query_s': 0.05}
        self.settings = router.RouterSettings(cell_uuid=CELL, **usual | settings)
        self.router = router.Router(
            self.job_table,
            lambda project: limits or {},
            self.queues,
            self.scheduler,
            self.claims,
            Source(),
            lambda: self.settings,
            queue_service.read,
            'me',
            self.tick,
        )
        self.router.start()

    def tick(self):
        self.now_s += 1
        return self.now_s

    def set_timeout(self, timeout_s):
        self.settings = router.RouterSettings(
            cell_uuid=CELL, timeout_s=timeout_s, query_s=0.05, joined_query_s=0.05
        )


@pytest.fixture
def make_routed(tmp_path):
    made = []

    def make(*hosts, **words):
        made.append(RoutedQueues(tmp_path, *hosts, **words))
        return made[-1]

    yield make
    for one in made:
        one.router.stop()
        one.engine.dispose()


def grouped(**fields):
    """A request that no queue can meet."""
    group = objects.InstanceGroup(
        uuid=uuid_of('group'), policy='anti-affinity', hosts=[], members=[]
    )
    return spec(instance_group=group, **fields)


def hosts(placed):
    return [[one.service_host for one in found] for found in placed]


def refusal(work, *args):
    with pytest.raises(errors.SchedError) as caught:
        work(*args)
    return caught.value


# Create.


def test_by_the_queue_of_its_flavor(make_routed):
    routed = make_routed()
    routed.add_worker('a', 'flavor.tiny')
    ((found,),) = routed.router.place(spec(), [SERVER])
    assert (found.service_host, found.nodename, found.cell_uuid) == ('a', 'a', CELL)
    assert (found.availability_zone, found.compute_node_uuid) == (None, uuid_of('node a'))
    assert found.limits.vcpu is None
    assert (routed.used, routed.scheduler.asked) == (TINY, [])
    (entry,) = routed.job_table.of_instance(SERVER)
    assert (entry.queue, entry.host, entry.state) == ('tiny', 'a', 'done')


@each_afresh(
    'host, alternates, offered',
    {
        'on the first host': ('b', True, [['b', 'c', 'd']]),
        'on an alternate': ('c', True, [['c', 'd']]),
        'without alternates': ('c', False, [['c']]),
    },
)
def test_by_the_scheduler(make_routed, host, alternates, offered):
    routed = make_routed(script=[('b', 'c', 'd')])
    routed.add_worker(host)
    assert hosts(routed.router.place(grouped(), [SERVER], alternates)) == offered
    (entry,) = routed.job_table.of_instance(SERVER)
    assert (entry.queue, entry.host, routed.used) == (None, host, TINY)


def test_without_queues_the_scheduler_is_asked_and_nothing_else_is_done(make_routed):
    routed = make_routed(script=[('b', 'c')], enabled=False)
    assert hosts(routed.router.place(spec(), [SERVER])) == [['b', 'c']]
    assert (routed.job_table.list(), routed.used, routed.queues.all_jobs()) == ([], NOTHING, {})


def test_beyond_the_quota_nothing_is_sent(make_routed):
    routed = make_routed(limits={'servers': 1, 'class:VCPU': 20})
    routed.add_worker('a', 'flavor.tiny')
    routed.router.place(spec(), [SERVER])
    error = refusal(routed.router.place, spec(), [OTHER])
    assert error.args == ('p', 'servers', 1, 1, 1)
    assert (routed.used, routed.job_table.of_instance(OTHER)) == (TINY, [])


def test_the_quota_of_several_is_that_of_all(make_routed):
    routed = make_routed(limits={'servers': 1})
    assert refusal(routed.router.place, spec(), [SERVER, OTHER]).args[2] == 2
    assert (routed.used, routed.job_table.list()) == (NOTHING, [])


def test_a_refusal_of_the_scheduler(make_routed):
    routed = make_routed(script=[errors.NoValidHost('Filter X removed all.')])
    assert refusal(routed.router.place, grouped(), [SERVER]).reason == 'Filter X removed all.'
    (entry,) = routed.job_table.of_instance(SERVER)
    assert (entry.state, entry.why, routed.used) == ('failed', 'Filter X removed all.', NOTHING)


def test_a_server_that_was_built_meanwhile_is_not_refused(make_routed):
    """Its job was taken for lost, and another manager had it built."""
    routed = make_routed(script=[errors.NoValidHost('Filter X removed all.')])
    choose = routed.scheduler.select_destinations

    def choose_late(*args, **words):
        routed.claims.put('a')
        routed.report_result(result(job()))
        return choose(*args, **words)

    routed.scheduler.select_destinations = choose_late
    ((placed,),) = routed.router.place(grouped(), [SERVER])
    assert (placed.service_host, routed.used) == ('a', TINY)


def test_all_or_none(make_routed):
    routed = make_routed('a', script=[('a',), ('b',)], tell_callers='all')
    routed.add_worker('a')
    routed.add_worker('b', outcome='failed', why='no')
    assert refusal(routed.router.place, grouped(), [SERVER, OTHER]).reason == 'no'
    assert (routed.used, routed.claims.there) == (NOTHING, {})


def test_all_or_none_of_those_that_wait_still(make_routed):
    routed = make_routed(tell_callers='all')
    sent = []

    def second_fails(delivery):
        sent.append(delivery)
        if len(sent) == 2:
            one = job(name='other')
            routed.report_result(result(one, outcome='failed', why='no'))

    routed.queues.consumer(second_fails, 'workers').follow({'flavor.tiny': 0})
    assert refusal(routed.router.place, spec(), [SERVER, OTHER]).reason == 'no'
    (entry,) = routed.job_table.of_instance(SERVER)
    assert entry.state == 'cancelled'


def test_a_server_that_was_built_although_it_was_cancelled_can_be_deleted(make_routed):
    """Its node could not delete it at first."""
    routed = make_routed('a')
    one = routed.add_job(job())
    routed.job_table.cancel(SERVER, routed.now_s)
    routed.claims.put('a')
    routed.router.delete(SERVER, wait=False)
    (delete,) = routed.queues.jobs('host.a')
    routed.report_result(result(delete))
    assert (routed.state(one), routed.used) == ('cancelled', NOTHING)


# Again.


def test_a_caller_that_waited_long_enough_joins_when_it_asks_again(make_routed):
    routed = make_routed()
    routed.set_timeout(0.2)
    assert type(refusal(routed.router.place, spec(), [SERVER])) is errors.NoAnswer
    (waiting,) = routed.queues.jobs('flavor.tiny')
    routed.set_timeout(5.0)
    routed.claims.put('a')
    timer = threading.Timer(0.2, lambda: routed.report_result(result(waiting)))
    timer.start()
    assert hosts(routed.router.place(spec(), [SERVER])) == [['a']]
    timer.join()
    assert len(routed.queues.jobs('flavor.tiny')) == 1
    assert routed.used == TINY


def test_who_asks_for_what_is_there_gets_it(make_routed):
    routed = make_routed()
    routed.add_worker('a', 'flavor.tiny')
    first = routed.router.place(spec(), [SERVER])
    routed.queues.consumers.clear()
    assert hosts(routed.router.place(spec(), [SERVER])) == hosts(first)
    assert (routed.queues.all_jobs(), routed.used) == ({}, TINY)


def test_what_has_failed_is_tried_again(make_routed):
    routed = make_routed(script=[errors.NoValidHost('full'), errors.NoValidHost('full'), ('b',)])
    for _ in range(2):
        refusal(routed.router.place, grouped(), [SERVER])
    routed.add_worker('b')
    assert hosts(routed.router.place(grouped(), [SERVER])) == [['b']]
    assert [one.state for one in routed.job_table.of_instance(SERVER)] == [
        'failed',
        'failed',
        'done',
    ]
    assert routed.used == TINY


def test_what_is_gone_is_made_again(make_routed):
    """As when a server is unshelved."""
    routed = make_routed()
    routed.add_worker('a', 'flavor.tiny')
    routed.router.place(spec(), [SERVER])
    routed.router.delete(SERVER)
    assert hosts(routed.router.place(spec(), [SERVER])) == [['a']]
    assert routed.used == TINY


def test_what_is_beyond_the_quota_the_second_time_leaves_nothing(make_routed):
    """One of two has failed before: the other is not entered alone."""
    routed = make_routed(limits={'servers': 1})
    routed.report_result(result(routed.add_job(job()), outcome='failed', why='no'))
    assert type(refusal(routed.router.place, spec(), [SERVER, OTHER])) is errors.QuotaExceeded
    assert (routed.used, routed.queues.all_jobs()) == (NOTHING, {})


def test_what_was_deleted_before_it_was_built_is_not_built_any_more(make_routed):
    """Nor is the other server of the same request."""
    routed = make_routed()
    routed.add_job(job())
    routed.router.delete(SERVER)
    error = refusal(routed.router.place, spec(), [OTHER, SERVER])
    assert 'deleted before it was built' in error.reason
    (entry,) = routed.job_table.of_instance(OTHER)
    assert (entry.state, routed.used, routed.queues.all_jobs()) == ('failed', TINY, {})


# Lost on the way.


def test_a_broker_that_is_away_gets_the_job_later(make_routed):
    routed = make_routed()
    routed.add_worker('a', 'flavor.tiny')
    routed.queues.away = 2
    assert hosts(routed.router.place(spec(), [SERVER])) == [['a']]


def test_a_chosen_host_that_could_not_be_told_is_chosen_again(make_routed):
    routed = make_routed(script=[('b',), ('b',)])
    routed.add_worker('b')
    routed.read_fallback()
    routed.queues.away = 1
    assert hosts(routed.router.place(grouped(), [SERVER])) == [['b']]


def test_an_answer_that_is_lost_is_found_in_the_job_table(make_routed):
    routed = make_routed()
    routed.add_worker('a', 'flavor.tiny')
    del routed.queues.consumers['reply.me']
    assert hosts(routed.router.place(spec(), [SERVER])) == [['a']]


def test_a_scheduler_that_does_not_answer_leaves_the_job(make_routed):
    """It is unknown whether it has chosen; upkeep finds out."""
    routed = make_routed(script=[errors.NoAnswer('select_destinations', 'x')])
    assert type(refusal(routed.router.place, grouped(), [SERVER])) is errors.NoAnswer
    (entry,) = routed.job_table.of_instance(SERVER)
    assert (entry.state, routed.used) == ('queued', TINY)


# Delete.


def test_delete_twice_is_once(make_routed):
    routed = make_routed()
    routed.add_worker('a', 'flavor.tiny')
    routed.router.place(spec(), [SERVER])
    del routed.queues.consumers['host.a']
    routed.router.delete(SERVER, wait=False)
    routed.router.delete(SERVER, wait=False)
    (waiting,) = routed.queues.jobs('host.a')
    timer = threading.Timer(0.2, lambda: routed.report_result(result(waiting)))
    timer.start()
    routed.router.delete(SERVER)
    timer.join()
    routed.claims.there.clear()
    routed.router.delete(SERVER)
    assert routed.used == NOTHING
    assert len(routed.queues.jobs('host.a')) == 1


class Between(SqlJobTable):
    """Makes the call ``then``, once, before it looks for all jobs of an instance."""

    then = None

    def of_instance(self, instance_uuid):
        call, self.then = self.then, None
        if call:
            call()
        return super().of_instance(instance_uuid)


def test_delete_while_it_is_asked_for(make_routed):
    """The create comes after the look for one that is queued, and before the look for all."""
    routed = make_routed(job_table=Between)
    one = job()
    routed.job_table.then = lambda: routed.add_job(one)
    routed.router.delete(SERVER)
    assert (routed.state(one), routed.used) == ('cancelled', TINY)


def test_delete_before_it_is_asked_for(make_routed):
    """The create comes after both reads: there was no instance to delete."""
    routed = make_routed()
    one = job()
    routed.claims.meanwhile = [lambda: routed.add_job(one)]
    assert isinstance(refusal(routed.router.delete, SERVER), errors.NotFound)
    assert (routed.state(one), routed.used) == ('queued', TINY)


def test_delete_while_it_is_built(make_routed):
    """It is asked for and built between the same looks."""

    def build():
        routed.claims.put('a')
        routed.report_result(result(routed.add_job(job())))

    routed = make_routed('a', job_table=Between)
    routed.job_table.then = build
    routed.router.delete(SERVER, wait=False)
    assert routed.queues.all_jobs() == {'host.a': ['delete']}


def test_delete_of_what_comes_back_meanwhile(make_routed):
    """The quota that the next one holds is not given back with that of the last one."""
    routed = make_routed()
    routed.report_result(result(routed.add_job(job()), outcome='failed', why='no'))
    again = job(number=1)
    routed.claims.meanwhile = [lambda: routed.add_job(again)]
    routed.router.delete(SERVER)
    assert (routed.state(again), routed.used) == ('queued', TINY)


def test_delete_of_what_its_node_took_along(make_routed):
    """The node was removed, and all its claims with it."""
    routed = make_routed()
    routed.report_result(result(routed.add_job(job())))
    routed.claims.there.clear()
    routed.router.delete(SERVER)
    assert routed.used == NOTHING


def test_delete_that_fails_may_be_tried_again(make_routed):
    routed = make_routed()
    routed.report_result(result(routed.add_job(job())))
    routed.claims.put('a')
    answers = iter(['failed', 'done'])

    def work(delivery):
        routed.report_result(
            result(messages.read_job(delivery.body), outcome=next(answers), why='busy')
        )

    routed.queues.declare(['host.a'])
    routed.queues.consumer(work, 'a').follow({'host.a': 0})
    error = refusal(routed.router.delete, SERVER)
    assert (type(error), error.args) == (errors.BuildFailed, ('a', 'busy'))
    assert routed.used == TINY
    routed.router.delete(SERVER)
    assert routed.used == NOTHING


def test_delete_where_it_is_while_it_moves(make_routed):
    routed = make_routed('a', 'b')
    routed.report_result(result(routed.add_job(job())))
    routed.claims.put('a')
    routed.claims.put('b', PENDING, move='migration')
    routed.router.delete(SERVER, wait=False)
    assert routed.queues.all_jobs() == {'host.a': ['delete']}


def test_a_node_that_has_never_had_a_worker_is_waited_for(make_routed):
    routed = make_routed()
    routed.claims.put('z', CONFIRMED)
    routed.router.delete(SERVER, wait=False)
    assert routed.queues.all_jobs() == {'host.z': ['delete']}
    (entry,) = routed.job_table.of_instance(SERVER)
    assert (entry.host, entry.state) == ('z', 'queued')


# Move.


def running(routed):
    routed.add_worker('a', 'flavor.tiny')
    routed.router.place(spec(), [SERVER])
    routed.read_fallback()


def test_resize_elsewhere(make_routed):
    routed = make_routed(script=[errors.NoValidHost('full'), ('b',)])
    running(routed)
    routed.add_worker('b')
    assert [one.service_host for one in routed.router.resize(spec('large'), SERVER)] == ['b']
    assert routed.used == LARGE
    deletes = [
        jobs.of_entry(one) for one in routed.job_table.of_instance(SERVER) if one.kind == 'delete'
    ]
    assert [(one.source, routed.state(one)) for one in deletes] == [('a', 'done')]


def test_resize_beyond_the_quota(make_routed):
    routed = make_routed(limits={'class:VCPU': 4})
    running(routed)
    assert refusal(routed.router.resize, spec('large'), SERVER).args == (
        'p',
        'class:VCPU',
        7,
        1,
        4,
    )
    assert routed.used == TINY


def test_resize_in_place_up_and_down_again(make_routed):
    routed = make_routed(script=[('a',), ('a',)])
    running(routed)
    for flavor, amounts in (('large', LARGE), ('tiny', TINY)):
        placed = routed.router.resize(spec(flavor), SERVER)
        assert ([one.service_host for one in placed], routed.used) == (['a'], amounts)


def test_migrate(make_routed):
    routed = make_routed(script=[('b',)])
    running(routed)
    routed.add_worker('b')
    assert [one.service_host for one in routed.router.migrate(spec(), SERVER)] == ['b']
    assert routed.used == TINY


@pytest.mark.parametrize('method', ['resize', 'migrate'])
def test_a_move_of_an_unknown_instance(make_routed, method):
    assert isinstance(
        refusal(getattr(make_routed().router, method), spec(), SERVER), errors.NotFound
    )
