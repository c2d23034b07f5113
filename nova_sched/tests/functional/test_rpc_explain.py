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
"""The namespace `explain`: dry runs, single hosts, room, and stored decision records."""

import pytest
from oslo_context.context import RequestContext

from nova_sched import errors, objects
from nova_sched.rpc import translate
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import (
    at_once,
    eventually,
    outcome,
    primitive,
    refused_as,
    running,
    spec,
)
from nova_sched.tests.options import settings


def context(name):
    return RequestContext(request_id=f'req-{name}', overwrite=False)


def select(daemon, name, **words):
    """Place one server for a request of this name."""
    return outcome(
        lambda: daemon.scheduler.select_destinations(
            spec(**words), [uuid_of(name)], context=context(name)
        )
    )


def test_a_dry_run_claims_nothing(daemon):
    daemon.add('a', 'b', vcpus=8)
    daemon.add('c', vcpus=1)
    before = daemon.state()
    found = daemon.explain.dry_run(spec(vcpus=2))
    assert daemon.state() == before
    assert (found['outcome'], found['reason'], found['hosts'], found['found']) == (
        'placed',
        None,
        3,
        1,
    )
    (placed,) = found['placed']
    assert {placed['host'], placed['alternates'][0]['host']} == {'a', 'b'}
    weights = {one['weigher']: one for one in placed['weights']}
    assert (weights['RAMWeigher']['raw'], weights['IoOpsWeigher']['multiplier']) == (16384.0, -1.0)
    (capacity,) = [one for one in found['filters'] if one['filter'] == 'ResourceCapacity']
    assert (capacity['seen'], capacity['left'], capacity['removed']) == (3, 2, ['c'])
    assert capacity['why'] == '2 vCPUs asked, the host has 1 in all'
    # What was foretold comes true.
    assert daemon.boot('one', vcpus=2) == [placed['host']]


def test_a_dry_run_for_several(daemon):
    daemon.add('a', 'b', vcpus=4)
    found = daemon.explain.dry_run(spec(vcpus=4, num_instances=3))
    assert (found['outcome'], found['instances'], found['found']) == ('refused', 3, 2)
    assert '2 of 3 instances found a host.' in found['reason']
    assert daemon.table('claims') == []


def test_a_refused_dry_run_is_an_answer(daemon):
    daemon.add('a', 'b', memory_mb_used=4096)
    found = daemon.explain.dry_run(spec(memory_mb=16384))
    assert found['outcome'] == 'refused'
    assert found['filters'][-1]['why'] == '16384 MiB of memory asked, the best host has 12288 free'
    assert found['filters'][-1]['nearest'] in ('a', 'b')


def test_why_not(daemon):
    daemon.add('a', 'b')
    daemon.stats.update_service('a', objects.Service(disabled=True, disabled_reason='broken fan'))
    before = daemon.state()
    found = daemon.explain.why_not(spec(vcpus=99), 'a')
    assert daemon.state() == before
    assert found['service']['disabled_reason'] == 'broken fan'
    (node,) = found['nodes']
    assert not node['passes']
    refusing = {one['rule']: one['why'] for one in node['rules'] if one['verdict'] == 'refuses'}
    assert refusing == {
        'DisabledCompute': 'it is disabled',
        'ResourceCapacity': '99 vCPUs asked, the host has 8 in all',
        'ComputeFilter': 'it is disabled',
    }
    (other,) = daemon.explain.why_not(spec(), 'b')['nodes']
    assert (other['passes'], other['rank'], other['of'], other['best']['host']) == (
        True,
        1,
        1,
        'b',
    )


def test_why_not_an_unknown_host(daemon):
    daemon.add('a')
    with pytest.raises(errors.NotFound, match='Host x is not known'):
        daemon.explain.why_not(spec(), 'x')


def test_capacity(daemon):
    daemon.add('a', 'b', vcpus=8)
    daemon.add('c', vcpus=5)
    fast = objects.Aggregate(
        id=1, name='fast', hosts=['a'], metadata={'availability_zone': 'west'}
    )
    daemon.scheduler.update_aggregates([fast])
    eventually(lambda: daemon.table('aggregates'))
    before = daemon.state()
    found = daemon.explain.capacity(spec(vcpus=2))
    assert daemon.state() == before
    assert found == {
        'total': 10,
        'at_least': False,
        'hosts': 3,
        'zones': {'nova': 6, 'west': 4},
        'aggregates': [{'id': 1, 'name': 'fast', 'total': 4}],
    }
    assert len(daemon.boot(*(f'server {number}' for number in range(10)), vcpus=2)) == 10
    assert daemon.explain.capacity(spec(vcpus=2))['total'] == 0


def test_a_refusal_is_kept(daemon):
    daemon.add('a')
    error = select(daemon, 'large', vcpus=99)
    (record,) = daemon.decisions('req-large')
    assert (record['request_id'], record['outcome']) == ('req-large', 'refused')
    assert record['reason'] == (
        f'{errors.NOT_ENOUGH} Of 1 hosts, ResourceCapacity removed the last 1: '
        '99 vCPUs asked, the host has 8 in all.'
    )
    assert error.reason == (
        f'{errors.NOT_ENOUGH} ResourceCapacity removed the last hosts: they do not have enough '
        'free resources. Operators find the details under req-large.'
    )
    assert (record['asked']['instances'], record['asked']['resources']['VCPU']) == (
        [uuid_of('large')],
        99,
    )
    # A second try of the same request is another decision.
    select(daemon, 'large', vcpus=98)
    eventually(lambda: len(daemon.decisions('req-large')) == 2)


def test_callers_are_told_all_if_the_operator_wants_it(daemon):
    daemon.add('a')
    with settings({'explain.tell_callers': 'all'}):
        error = select(daemon, 'huge', vcpus=99)
    (record,) = daemon.decisions('req-huge')
    assert error.reason == record['reason']


def test_the_request_is_named_by_its_own_words(daemon):
    """Nova's API lets only operators name a host."""
    daemon.add('a', 'b')
    error = select(daemon, 'named', force_hosts=['c'])
    assert error.reason == (
        f'{errors.NOT_ENOUGH} force_hosts removed the last hosts: the request names host c, '
        'which is not known. Operators find the details under req-named.'
    )


def test_a_running_instance_names_no_host(daemon):
    """A second build of an instance that runs: its conductor may pass the text on."""
    daemon.add('a')
    select(daemon, 'there')
    daemon.claims.confirm_claim(uuid_of('there'), 'a')
    error = select(daemon, 'there')
    assert error.reason == (
        f'Instance {uuid_of("there")} runs on a host, and the request is not a move from there. '
        'Operators find the details under req-there.'
    )
    kept = eventually(lambda: daemon.explain.show('req-there')[1:])
    assert 'runs on host a,' in kept[-1]['reason']


def test_what_is_not_kept_is_nothing(daemon):
    assert daemon.explain.show('req-unknown') == []


def test_a_success_is_kept_if_it_is_sampled(daemon):
    daemon.add('a', 'b')
    with settings({'explain.sample': 0.0}):
        select(daemon, 'not')
    with settings({'explain.sample': 1.0}):
        select(daemon, 'sampled')
    (record,) = daemon.decisions('req-sampled')
    assert (record['outcome'], record['placed'][0]['instance_uuid']) == (
        'placed',
        uuid_of('sampled'),
    )
    assert daemon.explain.show('req-not') == []


def test_the_next_process_knows_it_too(bus_url, tmp_path):
    asked = translate.requests(spec(), [uuid_of('nowhere')])
    with running(
        bus_url, tmp_path
    ) as first:  # called past the bus, where other daemons listen as well
        outcome(lambda: first.service.scheduler.place(asked, context=context('nowhere')))
    with running(bus_url, tmp_path) as second:
        (record,) = second.service.scheduler.decision_log.show('req-nowhere')
    assert 'No compute node has reported yet.' in record['reason']


def test_questions_in_parallel_with_decisions(daemon):
    daemon.add('a', 'b', 'c', vcpus=8)
    asked = [lambda number=number: daemon.boot(f'busy {number}') for number in range(12)]
    asked += [lambda: daemon.explain.capacity(spec()) for _ in range(4)]
    asked += [lambda: daemon.explain.dry_run(spec()) for _ in range(4)]
    at_once(lambda work: work(), asked)
    assert len(daemon.table('claims')) == 12
    assert daemon.explain.capacity(spec())['total'] == 12


@pytest.mark.parametrize(
    'method, arguments, name, words',
    [
        pytest.param('dry_run', {}, 'InvalidRequest', 'arguments of dry_run', id='no spec'),
        pytest.param(
            'dry_run', {'spec_obj': 'boot'}, 'InvalidRequest', 'spec_obj', id='a word for a spec'
        ),
        pytest.param(
            'dry_run',
            {'spec_obj': primitive(spec(), drop=['flavor'])},
            'InvalidRequest',
            'flavor',
            id='no flavor',
        ),
        pytest.param(
            'dry_run',
            {'spec_obj': primitive(spec(), num_instances=9999)},
            'InvalidRequest',
            '1 to 2000',
            id='too many',
        ),
        pytest.param(
            'capacity',
            {'spec_obj': primitive(spec(vcpus=-1))},
            'InvalidRequest',
            'vcpus',
            id='less than none',
        ),
        pytest.param(
            'capacity',
            {'spec_obj': {'x': 1}},
            'InvalidRequest',
            'spec_obj',
            id='a dict for a spec',
        ),
        pytest.param(
            'why_not',
            {'spec_obj': primitive(spec()), 'host': []},
            'InvalidRequest',
            'host',
            id='no host',
        ),
        pytest.param('why_not', {'host': 'a'}, 'InvalidRequest', 'spec_obj', id='a host alone'),
        pytest.param('show', {'request_id': 7}, 'InvalidRequest', 'request_id', id='a number'),
        pytest.param(
            'show', {'request_id': 'x' * 300}, 'InvalidRequest', 'request_id', id='a long name'
        ),
        pytest.param('show', {}, 'InvalidRequest', 'request_id', id='nothing'),
    ],
)
def test_bad_input(steady, method, arguments, name, words):
    refused_as(lambda: steady.raw(method, '1.0', 'explain', **arguments), name, words)


def test_health_counts_the_nodes_that_are_heard(daemon):
    daemon.add('a', 'b')
    assert daemon.explain.health() == {'nodes': 2, 'heard': 2}
    with settings({'default.service_down_time': 1}):
        eventually(lambda: daemon.explain.health() == {'nodes': 2, 'heard': 0})
