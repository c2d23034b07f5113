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
"""The namespace that Nova's scheduler answers, 4.0 to 4.5: every form of its call, and every
cast."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.rpc import translate
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import error_name, eventually, outcome, spec
from nova_sched.tests.options import settings
from nova_sched.tests.reference import recorded, wire


def test_a_host_is_chosen_claimed_and_returned_with_alternates(daemon):
    daemon.add('a', 'b', 'c', 'd')
    ((chosen, *alternates),) = daemon.scheduler.select_destinations(spec(), [uuid_of('one')])
    assert isinstance(chosen, objects.Selection)
    assert len({chosen.service_host, *(one.service_host for one in alternates)}) == 3
    assert chosen.compute_node_uuid == uuid_of(f'node {chosen.nodename}')
    assert json.loads(chosen.allocation_request)['allocations'] == {
        chosen.compute_node_uuid: {'resources': {'VCPU': 1, 'MEMORY_MB': 512}}
    }
    assert (chosen.allocation_request_version, chosen.availability_zone) == ('1.36', 'nova')
    assert daemon.hosts_of('one') == {chosen.service_host: 'pending'}


def test_a_flavor_is_read_from_the_first_of_many_equal_requests(daemon, monkeypatch):
    daemon.add('a', 'b', 'c')
    read, counted = translate._kind_facts, []
    monkeypatch.setattr(translate, '_kind_facts', lambda one: counted.append(one) or read(one))
    for name in ('one', 'two', 'three'):
        daemon.boot(name, vcpus=3)
    assert len(counted) == 1


@pytest.mark.parametrize(
    'attempts, hosts, alternates',
    [
        pytest.param(1, 'abcd', 0, id='one try, none'),
        pytest.param(3, 'abcd', 2, id='three tries, two'),
        pytest.param(9, 'abcd', 3, id='no more than there are'),
    ],
)
def test_alternates_are_one_less_than_the_tries(daemon, attempts, hosts, alternates):
    daemon.add(*hosts)
    with settings({'scheduler.max_attempts': attempts}):
        (found,) = daemon.scheduler.select_destinations(spec(), [uuid_of('one')])
    assert len(found) == 1 + alternates


def test_no_alternates_unless_asked_for(daemon):
    daemon.add('a', 'b')
    (found,) = daemon.scheduler.select_destinations(
        spec(), [uuid_of('one')], return_alternates=False
    )
    assert len(found) == 1


def test_several_instances_see_each_other_and_answers_keep_their_order(daemon):
    daemon.add('a', 'b', vcpus=2)
    names = ['one', 'two', 'three', 'four']
    hosts = daemon.boot(*names)
    assert sorted(hosts) == ['a', 'a', 'b', 'b']
    assert [daemon.hosts_of(name) for name in names] == [{host: 'pending'} for host in hosts]


def test_all_instances_or_none(daemon):
    daemon.add('a', 'b', vcpus=2)
    before = daemon.state()
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        daemon.boot('one', 'two', 'three', 'four', 'five')
    assert daemon.state() == before


@pytest.mark.parametrize('most', [2**31, 2**63, 10**400])
def test_a_group_without_a_limit_worth_the_name(daemon, most):
    """Nova's API takes any rule: one that no host can break is no limit, and no error."""
    daemon.add('a')
    group = objects.InstanceGroup(
        uuid=uuid_of(f'group {most}'),
        policy='anti-affinity',
        members=[uuid_of('other')],
        hosts=['a'],
        _rules={'max_server_per_host': str(most)},
    )
    for name in ('one', 'two'):
        asked = spec(instance_group=group)
        ((chosen, *_),) = daemon.scheduler.select_destinations(asked, [uuid_of(name)])
        assert chosen.service_host == 'a'
        assert daemon.hosts_of(name) == {'a': 'pending'}


def test_a_refusal_crosses_the_bus_as_novas_own_class(daemon):
    arguments = {'spec_obj': objects.to_primitive(spec()), 'instance_uuids': [uuid_of('one')]}
    refused = outcome(lambda: daemon.raw('select_destinations', **arguments))
    assert error_name(refused) == 'NoValidHost'
    assert 'No valid host was found. There are not enough hosts available.' in str(refused)


def test_the_same_call_twice_is_one_claim(daemon):
    daemon.add('a', 'b', vcpus=1)
    for _ in range(3):
        daemon.boot('one')
        assert len(daemon.table('claims')) == 1
    daemon.boot('two')
    with pytest.raises(errors.NoValidHost):
        daemon.boot('three')


@pytest.mark.parametrize(
    'aggregates',
    [
        pytest.param('object', id='one object'),
        pytest.param('list', id='a list'),
        pytest.param('AggregateList', id='a list object'),
    ],
)
def test_update_aggregates_in_all_its_forms(daemon, aggregates):
    daemon.add('a')
    zone = objects.Aggregate(
        id=7,
        uuid=uuid_of('zone'),
        name='zone',
        hosts=['a'],
        metadata={'availability_zone': 'north'},
    )
    form = {'object': zone, 'list': [zone], 'AggregateList': objects.AggregateList(objects=[zone])}
    daemon.scheduler.update_aggregates(form[aggregates])
    eventually(lambda: daemon.table('aggregates'))
    (found,) = daemon.scheduler.select_destinations(
        spec(availability_zone='north'), [uuid_of('one')]
    )
    assert found[0].availability_zone == 'north'


def test_a_deleted_aggregate_is_gone(daemon):
    daemon.add('a')
    zone = objects.Aggregate(id=7, uuid=uuid_of('zone'), name='zone', hosts=['a'])
    zone.metadata = {'availability_zone': 'north'}
    daemon.scheduler.update_aggregates([zone])
    eventually(lambda: daemon.table('aggregates'))
    daemon.scheduler.delete_aggregate(zone)
    eventually(lambda: not daemon.table('aggregates'))
    (found,) = daemon.scheduler.select_destinations(spec(), [uuid_of('one')])
    assert found[0].availability_zone == 'nova'


@pytest.mark.parametrize(
    'cast, table',
    [
        pytest.param('update_aggregates', 'aggregates', id='update_aggregates'),
        pytest.param('update_aggregates-list-object', 'aggregates', id='with a list object'),
        pytest.param('update_instance_info-one', 'host_instances', id='update_instance_info'),
        pytest.param(
            'update_instance_info-host-start', 'host_instances', id='at the start of a host'
        ),
        pytest.param('sync_instance_info', 'host_instances', id='sync_instance_info'),
    ],
)
def test_recorded_casts_are_taken(daemon, cast, table):
    message, context = wire(f'cast-{cast}')['message'], wire(f'cast-{cast}')['context']
    before = daemon.table(table)
    daemon.replay(message, context, fanout=True)
    eventually(lambda: daemon.table(table) != before)


def test_recorded_deletes_are_taken(daemon):
    daemon.scheduler.update_aggregates(recorded('AggregateList'))
    eventually(lambda: 3 in {row[0] for row in daemon.table('aggregates')})
    daemon.replay(wire('cast-delete_aggregate')['message'], fanout=True)
    eventually(lambda: 3 not in {row[0] for row in daemon.table('aggregates')})
    daemon.replay(wire('cast-sync_instance_info')['message'], fanout=True)
    gone = wire('cast-delete_instance_info')['message']
    eventually(lambda: gone['args']['instance_uuid'] in str(daemon.table('host_instances')))
    daemon.replay(gone, fanout=True)
    eventually(lambda: gone['args']['instance_uuid'] not in str(daemon.table('host_instances')))


def test_the_casts_of_a_host_confirm_claims_and_end_none(daemon):
    """Nothing says how old they are; a report that has seen the claim ends it."""
    daemon.add('a')
    for name in ('one', 'two', 'three'):
        daemon.boot(name)
    instance = objects.Instance(uuid=uuid_of('one'))
    daemon.scheduler.update_instance_info('a', objects.InstanceList(objects=[instance]))
    eventually(lambda: daemon.hosts_of('one') == {'a': 'confirmed'})
    assert daemon.hosts_of('two') == {'a': 'pending'}
    daemon.scheduler.delete_instance_info('a', uuid_of('one'))
    daemon.scheduler.sync_instance_info('a', [uuid_of('two')])
    eventually(lambda: daemon.hosts_of('two') == {'a': 'confirmed'})
    daemon.scheduler.sync_instance_info('a', [])
    eventually(lambda: uuid_of('two') not in str(daemon.table('host_instances')))
    assert daemon.hosts_of('one') == daemon.hosts_of('two') == {'a': 'confirmed'}
    assert daemon.hosts_of('three') == {'a': 'pending'}
    daemon.add('a', instances=[])
    assert daemon.hosts_of('one') == daemon.hosts_of('two') == {}
    assert daemon.hosts_of('three') == {'a': 'pending'}


def test_ping(daemon):
    assert daemon.raw('ping', '1.0', 'baseapi', arg='hello') == {
        'service': 'scheduler',
        'arg': 'hello',
    }
    assert daemon.raw('get_backdoor_port', '1.1', 'baseapi') is None
