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
"""Messages of queues that no conductor sends: a worker drops them or fails them, and builds the
next server."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import FALLBACK, RESULTS, of_flavor, of_host
from nova_sched.objects.object_io import DATA, VERSION
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import outcome
from nova_sched.tests.unit.extensions.queues.node.doubles import BUILD_S, Cloud, job

DEEP = '[' * 100_000
LONG = 'x' * 10**6
QUEUE = of_flavor('tiny')


def changed(**fields):
    """A job with other values in its message."""
    made = json.loads(messages.to_bytes(job()))
    made[DATA].update(fields)
    return json.dumps(made).encode()


def of_version(version):
    made = json.loads(messages.to_bytes(job()))
    return json.dumps({**made, VERSION: version}).encode()


# Bodies, and what is said of them.
BODIES = [
    ('a deep one', DEEP.encode(), 'it is not JSON'),
    ('bytes', b'\xff\xfe\x00', 'it is not JSON'),
    ('digits', b'9' * 5000, 'it is not JSON'),
    ('a number that is none', b'NaN', 'a QueueJob|something else|not'),
    ('a list', b'[]', 'it is something else'),
    ('an answer to another', messages.to_bytes(objects.QueueResult(
        job=job(), outcome='done', host='a', nodename='a', tries=0, why=None, claim=None)),
     'it is something else'),
    ('a later version', of_version('2.0'), 'version'),
    ('a version of other digits', of_version('\u0661.1'), 'is not a version'),
    ('another kind', changed(kind='format'), 'format'),
    ('an instance that is none', changed(instance_uuid='../../etc'), 'instance_uuid'),
    ('a job without an id', changed(uuid=None), 'uuid'),
    ('replies to the manager', changed(reply_to=RESULTS), 'not a queue for replies'),
    ('replies to the scheduler', changed(reply_to=FALLBACK), 'not a queue for replies'),
    ('replies to a node', changed(reply_to=of_host('b')), 'not a queue for replies'),
    ('replies to workers', changed(reply_to=QUEUE), 'not a queue for replies'),
    ('replies with a break', changed(reply_to='reply.\n'), 'is not a name'),
    ('a project of two lines', changed(project_id='a\nb'), 'is not a name'),
    ('a request of a million', changed(request_id=LONG), 'is not a name'),
    ('a source with an escape', changed(source='\x1b[2J'), 'is not a name'),
    ('a queue that AMQP has not', changed(queue='\u00e9' * 200), 'too long'),
    ('a host that is none', changed(tried=['a\0']), 'not text|not names'),
    ('hosts that are none', changed(tried=['a', LONG]), 'not names'),
]  # fmt: skip


def test_what_is_no_job_is_dropped():
    wrong = {}
    for name, body, words in BODIES:
        found = outcome(messages.read_job, body)
        is_said = any(word in str(found) for word in words.split('|'))
        cloud = Cloud()
        worker = cloud.start('a')
        assert cloud.broker.publish(QUEUE, body)
        cloud.send(job('next'))
        cloud.run()
        built = cloud.claims.states('next'), cloud.done
        if not (isinstance(found, errors.Invalid) and is_said) or worker.figures.refused != 1:
            wrong[name] = str(found)[:200], worker.figures.refused
        elif built != ({'a': 'confirmed'}, [('create', 'a', uuid_of('next'))]):
            wrong[name] = built
    assert wrong == {}


ODD_TEXTS = (DEEP, 'x', '7', '[7]', '[["b"]]', '{"b": "c"}', 'NaN', '[7, null]', '[{}, {}, {}]')


@pytest.mark.parametrize('field', ['alternates', 'failures'])
def test_a_job_of_an_odd_text_takes_no_place_for_ever(field):
    """Its build fails: the scheduler has the job, and the node both of its places."""
    wrong = {}
    for text in ODD_TEXTS:
        cloud = Cloud()
        worker = cloud.start('a')
        worker.driver.script.add('create', errors.BuildFailed('a', 'no image'))
        cloud.claims.put('server', 'a')
        cloud.send(job(claimed=True, **{field: text}))
        cloud.run()
        fallen = [messages.read_job(one.body) for one in cloud.drain(FALLBACK)]
        cloud.send(job('next'))
        cloud.send(job('last'))
        cloud.run(1.5 * BUILD_S)
        told = [messages.failures(one.failures)[-1]['why'] for one in fallen]
        built = {instance for kind, _, instance in cloud.done if kind == 'create'}
        if told != ['no image'] or built != {uuid_of('next'), uuid_of('last')}:
            wrong[text[:20]] = told, built
    assert wrong == {}
