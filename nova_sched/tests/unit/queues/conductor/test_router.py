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

from nova_sched import errors, objects, queue_service
from nova_sched.db.jobs import SqlJobTable
from nova_sched.objects.claim import CONFIRMED, PENDING
from nova_sched.queues import jobs, messages
from nova_sched.queues.conductor import router
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.queues.office import (
    CATALOGUE,
    CELL,
    LARGE,
    TINY,
    Office,
    job,
    result,
    spec,
)

SERVER, OTHER = uuid_of('server'), uuid_of('other')
NOTHING = {}


class Source:
    catalogue = CATALOGUE


class Desk(Office):
    """An office with a router before it."""

    def __init__(self, folder, *hosts, script=(), limits=None, job_table=SqlJobTable, **settings):
        super().__init__(folder, *hosts, script=script)
        self.job_table = job_table(self.engine)
        usual = {'timeout_s': 5.0, 'look_s': 0.05, 'joined_look_s': 0.05}
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
            cell_uuid=CELL, timeout_s=timeout_s, look_s=0.05, joined_look_s=0.05
        )


@pytest.fixture
def open_desk(tmp_path):
    made = []

    def make(*hosts, **words):
        made.append(Desk(tmp_path, *hosts, **words))
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


def test_by_the_queue_of_its_flavor(open_desk):
    desk = open_desk()
    desk.staff('a', 'flavor.tiny')
    ((found,),) = desk.router.place(spec(), [SERVER])
    assert (found.service_host, found.nodename, found.cell_uuid) == ('a', 'a', CELL)
    assert (found.availability_zone, found.compute_node_uuid) == (None, uuid_of('node a'))
    assert found.limits.vcpu is None
    assert (desk.used, desk.scheduler.asked) == (TINY, [])
    (entry,) = desk.job_table.of_instance(SERVER)
    assert (entry.queue, entry.host, entry.state) == ('tiny', 'a', 'done')


def test_by_the_scheduler(open_desk):
    desk = open_desk(script=[('b', 'c')])
    desk.staff('b')
    assert hosts(desk.router.place(grouped(), [SERVER])) == [['b', 'c']]
    (entry,) = desk.job_table.of_instance(SERVER)
    assert (entry.queue, entry.host, desk.used) == (None, 'b', TINY)


@pytest.mark.parametrize('alternates, found', [(True, [['c', 'd']]), (False, [['c']])])
def test_by_the_scheduler_and_on_an_alternate(open_desk, alternates, found):
    desk = open_desk(script=[('b', 'c', 'd')])
    desk.staff('c')
    assert hosts(desk.router.place(grouped(), [SERVER], alternates)) == found


def test_without_queues_the_scheduler_is_asked_and_nothing_else_is_done(open_desk):
    desk = open_desk(script=[('b', 'c')], enabled=False)
    assert hosts(desk.router.place(spec(), [SERVER])) == [['b', 'c']]
    assert (desk.job_table.list(), desk.used, desk.queues.all_jobs()) == ([], NOTHING, {})


def test_beyond_the_quota_nothing_is_sent(open_desk):
    desk = open_desk(limits={'servers': 1, 'class:VCPU': 20})
    desk.staff('a', 'flavor.tiny')
    desk.router.place(spec(), [SERVER])
    error = refusal(desk.router.place, spec(), [OTHER])
    assert error.args == ('p', 'servers', 1, 1, 1)
    assert (desk.used, desk.job_table.of_instance(OTHER)) == (TINY, [])


def test_the_quota_of_several_is_that_of_all(open_desk):
    desk = open_desk(limits={'servers': 1})
    desk.staff('a', 'flavor.tiny')
    assert refusal(desk.router.place, spec(), [SERVER, OTHER]).args[2] == 2
    assert (desk.used, desk.job_table.list()) == (NOTHING, [])


def test_a_refusal_of_the_scheduler(open_desk):
    desk = open_desk(script=[errors.NoValidHost('Filter X removed all.')])
    assert refusal(desk.router.place, grouped(), [SERVER]).reason == 'Filter X removed all.'
    (entry,) = desk.job_table.of_instance(SERVER)
    assert (entry.state, entry.why, desk.used) == ('failed', 'Filter X removed all.', NOTHING)


def test_a_refusal_after_the_queue(open_desk):
    """No node has taken it, and the scheduler has no host for it either."""
    desk = open_desk(script=[errors.NoValidHost('Filter X removed all.')])
    desk.queues.consumer(desk.fallback.take, 'manager').follow({'flavor.tiny': 0})
    assert refusal(desk.router.place, spec(), [SERVER]).reason == 'Filter X removed all.'
    assert desk.used == NOTHING


def test_every_host_has_failed(open_desk):
    desk = open_desk()

    def fail(delivery):
        desk.fall(job(tried=['a', 'b', 'c']))

    desk.queues.consumer(fail, 'workers').follow({'flavor.tiny': 0})
    error = refusal(desk.router.place, spec(), [SERVER])
    assert (type(error), error.args) == (errors.MaxRetriesExceeded, (SERVER, 'a, b, c'))


def test_all_or_none(open_desk):
    desk = open_desk('a', script=[('a',), ('b',)])
    desk.staff('a')
    desk.staff('b', outcome='failed', why='no')
    assert refusal(desk.router.place, grouped(), [SERVER, OTHER]).reason == 'no'
    assert (desk.used, desk.claims.there) == (NOTHING, {})


def test_all_or_none_of_those_that_wait_still(open_desk):
    desk = open_desk()
    sent = []

    def second_fails(delivery):
        sent.append(delivery)
        if len(sent) == 2:
            one = job(name='other')
            desk.tell(result(one, outcome='failed', why='no'))

    desk.queues.consumer(second_fails, 'workers').follow({'flavor.tiny': 0})
    assert refusal(desk.router.place, spec(), [SERVER, OTHER]).reason == 'no'
    (entry,) = desk.job_table.of_instance(SERVER)
    assert entry.state == 'cancelled'


# Again.


def test_a_caller_that_waited_long_enough_joins_when_it_asks_again(open_desk):
    desk = open_desk()
    desk.set_timeout(0.2)
    assert type(refusal(desk.router.place, spec(), [SERVER])) is errors.NoAnswer
    (waiting,) = desk.queues.jobs('flavor.tiny')
    desk.set_timeout(5.0)
    desk.claims.put('a')
    timer = threading.Timer(0.2, lambda: desk.tell(result(waiting)))
    timer.start()
    assert hosts(desk.router.place(spec(), [SERVER])) == [['a']]
    timer.join()
    assert len(desk.queues.jobs('flavor.tiny')) == 1
    assert desk.used == TINY


def test_who_asks_for_what_is_there_gets_it(open_desk):
    desk = open_desk()
    desk.staff('a', 'flavor.tiny')
    first = desk.router.place(spec(), [SERVER])
    desk.queues.consumers.clear()
    assert hosts(desk.router.place(spec(), [SERVER])) == hosts(first)
    assert (desk.queues.all_jobs(), desk.used) == ({}, TINY)


def test_what_has_failed_is_tried_again(open_desk):
    desk = open_desk(script=[errors.NoValidHost('full'), errors.NoValidHost('full'), ('b',)])
    for _ in range(2):
        refusal(desk.router.place, grouped(), [SERVER])
    desk.staff('b')
    assert hosts(desk.router.place(grouped(), [SERVER])) == [['b']]
    assert [one.state for one in desk.job_table.of_instance(SERVER)] == [
        'failed',
        'failed',
        'done',
    ]
    assert desk.used == TINY


def test_what_is_gone_is_made_again(open_desk):
    """As when a server is unshelved."""
    desk = open_desk()
    desk.staff('a', 'flavor.tiny')
    desk.router.place(spec(), [SERVER])
    desk.router.delete(SERVER)
    assert hosts(desk.router.place(spec(), [SERVER])) == [['a']]
    assert desk.used == TINY


def test_what_is_beyond_the_quota_the_second_time_leaves_nothing(open_desk):
    """One of two has failed before: the other is not entered alone."""
    desk = open_desk(limits={'servers': 1})
    desk.tell(result(desk.enter(job()), outcome='failed', why='no'))
    assert type(refusal(desk.router.place, spec(), [SERVER, OTHER])) is errors.QuotaExceeded
    assert (desk.used, desk.queues.all_jobs()) == (NOTHING, {})


def test_what_was_deleted_before_it_was_built_is_not_built_any_more(open_desk):
    desk = open_desk()
    desk.enter(job())
    desk.router.delete(SERVER)
    assert 'deleted before it was built' in refusal(desk.router.place, spec(), [SERVER]).reason


# Lost on the way.


def test_a_broker_that_is_away_gets_the_job_later(open_desk):
    desk = open_desk()
    desk.staff('a', 'flavor.tiny')
    desk.queues.away = 2
    assert hosts(desk.router.place(spec(), [SERVER])) == [['a']]


def test_a_chosen_host_that_could_not_be_told_is_chosen_again(open_desk):
    desk = open_desk(script=[('b',), ('b',)])
    desk.staff('b')
    desk.manage()
    desk.queues.away = 1
    assert hosts(desk.router.place(grouped(), [SERVER])) == [['b']]


def test_an_answer_that_is_lost_is_found_in_the_job_table(open_desk):
    desk = open_desk()
    desk.staff('a', 'flavor.tiny')
    del desk.queues.consumers['reply.me']
    assert hosts(desk.router.place(spec(), [SERVER])) == [['a']]


def test_a_scheduler_that_does_not_answer_leaves_the_job(open_desk):
    """It is unknown whether it has chosen; upkeep finds out."""
    desk = open_desk(script=[errors.NoAnswer('select_destinations', 'x')])
    assert type(refusal(desk.router.place, grouped(), [SERVER])) is errors.NoAnswer
    (entry,) = desk.job_table.of_instance(SERVER)
    assert (entry.state, desk.used) == ('queued', TINY)


# Delete.


def test_delete(open_desk):
    desk = open_desk()
    desk.staff('a', 'flavor.tiny')
    desk.router.place(spec(), [SERVER])
    desk.router.delete(SERVER)
    assert (desk.used, desk.claims.there) == (NOTHING, {})


def test_delete_twice_is_once(open_desk):
    desk = open_desk()
    desk.staff('a', 'flavor.tiny')
    desk.router.place(spec(), [SERVER])
    del desk.queues.consumers['host.a']
    desk.router.delete(SERVER, wait=False)
    desk.router.delete(SERVER, wait=False)
    (waiting,) = desk.queues.jobs('host.a')
    timer = threading.Timer(0.2, lambda: desk.tell(result(waiting)))
    timer.start()
    desk.router.delete(SERVER)
    timer.join()
    desk.claims.there.clear()
    desk.router.delete(SERVER)
    assert desk.used == NOTHING
    assert len(desk.queues.jobs('host.a')) == 1


def test_delete_of_an_unknown_instance(open_desk):
    assert isinstance(refusal(open_desk().router.delete, SERVER), errors.NotFound)


def test_delete_before_it_is_built(open_desk):
    desk = open_desk()
    one = desk.enter(job())
    desk.router.delete(SERVER)
    desk.router.delete(SERVER)
    assert (desk.state(one), desk.used, desk.queues.all_jobs()) == ('cancelled', TINY, {})


class Between(SqlJobTable):
    """Makes the call ``then``, once, before it looks for all jobs of an instance."""

    then = None

    def of_instance(self, instance_uuid):
        call, self.then = self.then, None
        if call:
            call()
        return super().of_instance(instance_uuid)


def test_delete_while_it_is_asked_for(open_desk):
    """The create comes after the look for one that is queued, and before the look for all."""
    desk = open_desk(job_table=Between)
    one = job()
    desk.job_table.then = lambda: desk.enter(one)
    desk.router.delete(SERVER)
    assert (desk.state(one), desk.used) == ('cancelled', TINY)


def test_delete_before_it_is_asked_for(open_desk):
    """The create comes after both reads: there was no instance to delete."""
    desk = open_desk()
    one = job()
    desk.claims.meanwhile = [lambda: desk.enter(one)]
    assert isinstance(refusal(desk.router.delete, SERVER), errors.NotFound)
    assert (desk.state(one), desk.used) == ('queued', TINY)


def test_delete_while_it_is_built(open_desk):
    """It is asked for and built between the same looks."""

    def build():
        desk.claims.put('a')
        desk.tell(result(desk.enter(job())))

    desk = open_desk('a', job_table=Between)
    desk.job_table.then = build
    desk.router.delete(SERVER, wait=False)
    assert desk.queues.all_jobs() == {'host.a': ['delete']}


def test_delete_of_what_comes_back_meanwhile(open_desk):
    """The quota that the next one holds is not given back with that of the last one."""
    desk = open_desk()
    desk.tell(result(desk.enter(job()), outcome='failed', why='no'))
    again = job(number=1)
    desk.claims.meanwhile = [lambda: desk.enter(again)]
    desk.router.delete(SERVER)
    assert (desk.state(again), desk.used) == ('queued', TINY)


def test_delete_of_what_has_failed(open_desk):
    desk = open_desk()
    desk.tell(result(desk.enter(job()), outcome='failed', why='no'))
    desk.router.delete(SERVER)
    assert desk.used == NOTHING


def test_delete_of_what_its_node_took_along(open_desk):
    """The node was removed, and all its claims with it."""
    desk = open_desk()
    desk.tell(result(desk.enter(job())))
    desk.router.delete(SERVER)
    assert desk.used == NOTHING


def test_delete_that_fails_may_be_tried_again(open_desk):
    desk = open_desk()
    desk.tell(result(desk.enter(job())))
    desk.claims.put('a')
    answers = iter(['failed', 'done'])

    def work(delivery):
        desk.tell(result(messages.read_job(delivery.body), outcome=next(answers), why='busy'))

    desk.queues.declare(['host.a'])
    desk.queues.consumer(work, 'a').follow({'host.a': 0})
    error = refusal(desk.router.delete, SERVER)
    assert (type(error), error.args) == (errors.BuildFailed, ('a', 'busy'))
    assert desk.used == TINY
    desk.router.delete(SERVER)
    assert desk.used == NOTHING


def test_delete_where_it_is_while_it_moves(open_desk):
    desk = open_desk('a', 'b')
    desk.tell(result(desk.enter(job())))
    desk.claims.put('a')
    desk.claims.put('b', PENDING, move='migration')
    desk.router.delete(SERVER, wait=False)
    assert desk.queues.all_jobs() == {'host.a': ['delete']}


def test_a_node_that_has_never_had_a_worker_is_waited_for(open_desk):
    desk = open_desk()
    desk.claims.put('z', CONFIRMED)
    desk.router.delete(SERVER, wait=False)
    assert desk.queues.all_jobs() == {'host.z': ['delete']}


# Move.


def running(desk):
    desk.staff('a', 'flavor.tiny')
    desk.router.place(spec(), [SERVER])
    desk.manage()


def test_resize_in_place(open_desk):
    desk = open_desk(script=[('a',)])
    running(desk)
    assert [one.service_host for one in desk.router.resize(spec('large'), SERVER)] == ['a']
    assert desk.used == LARGE


def test_resize_elsewhere(open_desk):
    desk = open_desk(script=[errors.NoValidHost('full'), ('b',)])
    running(desk)
    desk.staff('b')
    assert [one.service_host for one in desk.router.resize(spec('large'), SERVER)] == ['b']
    assert desk.used == LARGE
    deletes = [
        jobs.of_entry(one) for one in desk.job_table.of_instance(SERVER) if one.kind == 'delete'
    ]
    assert [(one.source, desk.state(one)) for one in deletes] == [('a', 'done')]


def test_resize_to_nowhere(open_desk):
    desk = open_desk(script=[errors.NoValidHost('full'), errors.NoValidHost('All full.')])
    running(desk)
    assert refusal(desk.router.resize, spec('large'), SERVER).reason == 'All full.'
    assert desk.used == TINY


def test_resize_beyond_the_quota(open_desk):
    desk = open_desk(limits={'class:VCPU': 4})
    running(desk)
    assert refusal(desk.router.resize, spec('large'), SERVER).args == ('p', 'class:VCPU', 7, 1, 4)
    assert desk.used == TINY


def test_resize_up_and_down_again(open_desk):
    desk = open_desk(script=[('a',), ('a',)])
    running(desk)
    desk.router.resize(spec('large'), SERVER)
    desk.router.resize(spec('tiny'), SERVER)
    assert desk.used == TINY


def test_migrate(open_desk):
    desk = open_desk(script=[('b',)])
    running(desk)
    desk.staff('b')
    assert [one.service_host for one in desk.router.migrate(spec(), SERVER)] == ['b']
    assert desk.used == TINY


@pytest.mark.parametrize('method', ['resize', 'migrate'])
def test_a_move_of_an_unknown_instance(open_desk, method):
    assert isinstance(
        refusal(getattr(open_desk().router, method), spec(), SERVER), errors.NotFound
    )
