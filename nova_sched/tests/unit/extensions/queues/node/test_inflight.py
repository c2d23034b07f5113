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
"""Messages that come again, that make no sense, or that cannot be answered for."""

import json

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import RESULTS, of_flavor, of_host
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.extensions.queues.node.doubles import BUILD_S, Cloud, job

TINY, HERE = of_flavor('tiny'), of_host('a')


@pytest.fixture
def cloud():
    return Cloud()


def plain(**data):
    """The primitive of a job, with other data; None leaves a field out."""
    primitive = job().obj_to_primitive()
    primitive['nova_object.data'] |= data
    for name in [name for name, value in data.items() if value is None]:
        del primitive['nova_object.data'][name]
    return primitive


@pytest.mark.parametrize(
    'body',
    [
        pytest.param(b'', id='empty'),
        pytest.param(b'\xff\xfe', id='no text'),
        pytest.param(b'{', id='no JSON'),
        pytest.param(b'[' * 100_000, id='nested too deeply'),
        pytest.param(b'[1, 2]', id='a list'),
        pytest.param(b'5', id='a number'),
        pytest.param(json.dumps(job().spec.obj_to_primitive()).encode(), id='another object'),
        pytest.param(
            json.dumps(plain() | {'nova_object.version': '2.0'}).encode(), id='major version'
        ),
        pytest.param(
            json.dumps(plain() | {'nova_object.name': 'Unknown'}).encode(), id='unknown object'
        ),
        pytest.param(json.dumps(plain(spec=None)).encode(), id='no spec'),
        pytest.param(json.dumps(plain(kind=None)).encode(), id='no kind'),
        pytest.param(json.dumps(plain(kind='reboot')).encode(), id='unknown kind'),
        pytest.param(json.dumps(plain(uuid=None)).encode(), id='no uuid'),
        pytest.param(json.dumps(plain(uuid='../../etc')).encode(), id='uuid that is none'),
        pytest.param(json.dumps(plain(instance_uuid=7)).encode(), id='instance that is none'),
    ],
)
def test_what_is_no_job_is_thrown_away(cloud, body):
    a = cloud.start('a')
    cloud.broker.publish(TINY, body)
    cloud.run()
    assert (a.figures.refused, a.figures.taken, cloud.ready(TINY)) == (1, 0, 0)
    cloud.send(job())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]


def test_what_a_newer_release_has_added_is_passed_over(cloud):
    cloud.start('a')
    newer = plain(colour='blue') | {'nova_object.version': '1.7'}
    cloud.broker.publish(TINY, json.dumps(newer).encode())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]


def test_a_redelivered_job_is_counted_first(cloud):
    cloud.send(job())
    cloud.lose(TINY)
    a = cloud.start('a')
    cloud.run()
    assert (a.figures.redelivered, a.figures.taken) == (1, 1)
    assert cloud.result().tries == 1


@pytest.mark.parametrize(
    'tries, fallen', [pytest.param(2, 0, id='once more'), pytest.param(3, 1, id='too often')]
)
def test_a_job_that_ends_its_workers_goes_to_the_scheduler(cloud, tries, fallen):
    cloud.send(job(), tries=tries)
    cloud.lose(TINY)
    a = cloud.start('a', max_redeliveries=3)
    cloud.run()
    assert (len(cloud.fallen()), a.figures.done) == (fallen, 1 - fallen)


def test_a_delete_that_ends_its_worker_fails_after_all(cloud):
    a = cloud.start('a', run=False)
    cloud.broker.declare([HERE])
    cloud.send(job(kind='delete'), HERE, tries=3)
    cloud.lose(HERE)
    cloud.run()
    result = cloud.result()
    assert (result.outcome, result.why) == ('failed', 'it was put back 3 times')
    assert (cloud.ready(HERE), a.figures.failed, cloud.kinds()) == (0, 1, [])


def test_a_redelivered_delete_is_done(cloud):
    a = cloud.start('a', run=False)
    cloud.broker.declare([HERE])
    cloud.send(job(kind='delete'), HERE)
    cloud.lose(HERE)
    cloud.run()
    assert cloud.results() == [('delete', 'done', 'a')]
    assert a.figures.redelivered == 1


def test_of_two_messages_of_one_job_the_later_counts(cloud):
    a = cloud.start('a')
    cloud.send(job())
    cloud.run(1.0)
    cloud.send(job(), tries=2)
    cloud.run(1.0)
    assert a.figures.taken == 1
    cloud.run()
    assert cloud.result().tries == 2
    assert (cloud.ready(TINY), a.figures.taken, cloud.kinds()) == (0, 1, [('create', 'a')])
    a.worker.stop()
    assert cloud.ready(TINY) == 0  # none of its jobs was inflight any more


def test_a_message_that_comes_after_the_end_is_a_job_of_its_own(cloud):
    cloud.start('a')
    cloud.send(job())
    cloud.run()
    cloud.send(job())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')] * 2
    assert cloud.kinds() == [('create', 'a')]


# A broker may deliver a message again without a sign of it: the claims decide.


def test_a_job_that_another_worker_has_done_is_not_built_again(cloud):
    a = cloud.start('a')
    cloud.send(job())
    cloud.run()
    a.worker.stop()
    cloud.start('b')
    cloud.send(job())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')] * 2
    assert cloud.kinds() == [('create', 'a')]


@pytest.mark.parametrize(
    'elsewhere, dropped', [pytest.param(['b'], 1, id='moved'), pytest.param([], 0, id='ended')]
)
def test_a_claimed_job_without_a_claim_here_is_not_built(cloud, elsewhere, dropped):
    """Unless it is claimed elsewhere, a manager sees by its row whether it is still wanted."""
    a = cloud.start('a')
    for host in elsewhere:
        cloud.claims.put('server', host, CONFIRMED)
    cloud.send(job(claimed=True), HERE)
    cloud.run()
    assert (cloud.kinds(), cloud.results(), a.node_api.used) == ([], [], 0)
    assert (a.figures.dropped, cloud.ready(HERE)) == (dropped, 0)
    assert [one.claimed for one in cloud.fallen()] == [False] * (1 - dropped)


class Shaky:
    """A broker that is away at times: then what is asked of it by these methods raises."""

    def __init__(self, broker, *methods):
        self.is_away = False
        self._broker, self._methods = broker, methods

    def __getattr__(self, name):
        real = getattr(self._broker, name)
        if name == 'consumer':
            return lambda *args: Shaky(real(*args), *self._methods)._like(self)
        if name not in self._methods:
            return real
        return lambda *args, **words: self._ask(real, *args, **words)

    def _like(self, other):
        self._ask = other._ask
        return self

    def _ask(self, real, *args, **words):
        if self.is_away:
            raise errors.BrokerUnavailable('it is away')
        return real(*args, **words)


def test_a_worker_waits_for_its_broker(cloud):
    broker = Shaky(cloud.broker, 'declare', 'consumer')
    broker.is_away = True
    cloud.start('a', broker=broker)
    assert cloud.subscribers() == (0, 0, 0)
    broker.is_away = False
    cloud.run(5.0)
    assert cloud.subscribers() == (1, 1, 1)


def test_a_result_waits_for_the_broker(cloud):
    broker = Shaky(cloud.broker, 'publish')
    a = cloud.start('a', broker=broker)
    cloud.send(job())
    cloud.run(1.0)
    broker.is_away = True
    cloud.run(BUILD_S * 2)
    assert (cloud.results(), a.node_api.size('server')) == ([], 1)
    broker.is_away = False
    cloud.run(5.0)
    assert cloud.results() == [('create', 'done', 'a')]
    assert cloud.ready(TINY) == 0


def test_queues_are_chosen_when_the_broker_is_back(cloud):
    broker = Shaky(cloud.broker, 'follow')
    a = cloud.start('a', broker=broker)
    broker.is_away = True
    a.node_api.put('other', 8)
    cloud.run(10.0)
    assert cloud.subscribers() == (1, 1, 1)
    broker.is_away = False
    cloud.run(5.0)
    assert cloud.subscribers() == (0, 0, 0)


def test_the_window_stays_until_queues_could_be_left(cloud):
    broker = Shaky(cloud.broker, 'follow')
    a = cloud.start('a', broker=broker, slots=4)
    broker.is_away = True
    for number in range(3):
        cloud.send(job(f'server {number}', flavor='large'))
    cloud.run(5.0)
    assert (a.figures.taken, cloud.ready(of_flavor('large'))) == (1, 2)


def test_an_acknowledgement_that_was_not_heard_does_not_matter(cloud):
    broker = Shaky(cloud.broker, 'ack')
    a = cloud.start('a', broker=broker)
    broker.is_away = True
    cloud.send(job())
    cloud.run()
    broker.is_away = False
    a.worker.stop()
    b = cloud.start('b')
    cloud.run()
    # It comes again, to a host that has not built it.
    assert cloud.results() == [('create', 'done', 'a')] * 2
    assert (cloud.claims.states('server'), b.node_api.used) == ({'a': CONFIRMED}, 0)


def test_results_keep_their_job(cloud):
    cloud.start('a')
    cloud.send(job(reply_to='reply.one', request_id='req-1', project_id='p'))
    cloud.run()
    (delivery,) = cloud.drain(RESULTS)
    told = messages.read_result(delivery.body)
    assert (told.job.reply_to, told.job.request_id, told.job.project_id) == (
        'reply.one',
        'req-1',
        'p',
    )
    assert told.job.instance_uuid == uuid_of('server')
