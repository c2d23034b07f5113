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
"""Tests of the agent: what it takes, what it gives up, and what it says of it."""

import pytest

from nova_sched import errors
from nova_sched.extensions.agent.difference import Counted
from nova_sched.extensions.agent.service import Facts
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.agent.builders import NODE, SERVER, agent_of, guest, node
from nova_sched.tests.unit.extensions.agent.fake_machine import two_cells

TREE = {NODE: {'inventories': {}, 'traits': []}}


@pytest.fixture
def make(tmp_path):
    """Make the agent of one machine of eight CPUs, again and again; ``options`` are settings."""
    fake = two_cells(tmp_path)

    return lambda **options: agent_of(tmp_path, fake, **{'cpu_allocation_ratio': 1.0, **options})


def asks(vcpus=2, uuid=SERVER, **words):
    return request(vcpus=vcpus, memory_mb=1, instance_uuid=uuid, **words)


def states(agent):
    return {one['uuid']: one['vm_state'] for one in agent.instances()}


def test_an_instance_is_taken_and_reported(make):
    agent = make()
    agent.build(asks(project_id='p', image_properties={'os_type': 'linux'}))
    assert agent.instances() == [
        {
            'uuid': SERVER,
            'resources': {'VCPU': 2, 'MEMORY_MB': 1},
            'vm_state': 'active',
            'project_id': 'p',
            'os_type': 'linux',
            'parts': None,
            'devices': [],
            'move': None,
            'resizing': None,
            'new_devices': [],
            'hidden': False,
            'claim_uuid': None,
        }
    ]
    facts = agent.read()
    assert facts.instances == {SERVER}
    assert (facts.node.vcpus_used, facts.node.memory_mb_used, facts.node.running_vms) == (2, 1, 1)
    assert facts.node.stats['num_os_type_linux'] == facts.node.stats['num_proj_p'] == '1'
    assert facts.inventories[facts.node.uuid]['inventories']['VCPU']['total'] == 8


def test_a_build_that_goes_on(make):
    agent = make()
    agent.build(asks(), finished=False)
    building = agent.read().node
    assert (states(agent), building.current_workload) == ({SERVER: 'building'}, 1)
    assert building.stats['io_workload'] == '1'
    agent.finish(SERVER)
    assert (states(agent), agent.read().node.stats['io_workload']) == ({SERVER: 'active'}, '0')


def test_finishing_what_is_not_here(make):
    with pytest.raises(errors.NotFound, match=f'{SERVER} on host cmp1'):
        make().finish(SERVER)


@pytest.mark.parametrize(
    'options, words, short',
    [
        pytest.param({}, {'vcpus': 3}, 'VCPU: 3 asked, 2 available', id='CPUs'),
        pytest.param(
            {'reserved_host_cpus': 1}, {'vcpus': 2}, 'VCPU: 2 asked, 1 available', id='reserved'
        ),
        pytest.param(
            {'cpu_dedicated_set': '7'},
            {'vcpus': 2, 'extra_specs': {'hw:cpu_policy': 'dedicated'}},
            'PCPU: 2 asked, the node has 1 in all',
            id='dedicated CPUs',
        ),
        pytest.param(
            {'resources': {'CUSTOM_GOLD': 1}},
            {'vcpus': 1, 'extra_specs': {'resources:CUSTOM_GOLD': '2'}},
            'CUSTOM_GOLD: 2 asked, the node has 1 in all',
            id='custom class',
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, options, words, short):
    agent = make(**options)
    agent.build(asks(vcpus=6, uuid=uuid_of('first')))
    with pytest.raises(errors.ComputeResourcesUnavailable, match=short):
        agent.build(asks(**words))
    assert list(states(agent)) == [uuid_of('first')]
    assert agent.read().instances == {uuid_of('first')}


def test_a_refusal_is_explained_by_the_numbers_of_both_sides(make, caplog):
    agent = make()
    agent.build(asks(vcpus=7, uuid=uuid_of('first')))
    counted = Counted({'VCPU': 8}, {'VCPU': 2, 'MEMORY_MB': 1}, {SERVER: {'VCPU': 2}})
    agent.told(counted)
    with pytest.raises(errors.ComputeResourcesUnavailable):
        agent.build(asks())
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == 'WARNING']
    short, _, theirs = line.partition('. ')
    assert short == f'Instance {SERVER} is refused: VCPU: 2 asked, 1 available'
    assert 'VCPU: 7 of 8 here, 2 of 8 there' in theirs
    assert theirs.endswith('with VCPU=2 claimed for this instance')


def test_what_is_held_is_among_the_facts(make):
    agent = make()
    agent.build(asks())
    facts = agent.read()
    assert facts.held == {SERVER: {'VCPU': 2, 'MEMORY_MB': 1}}
    assert (facts.counted.capacity['VCPU'], facts.counted.used['VCPU']) == (8, 2)
    agent.build(asks(uuid=uuid_of('second')))
    agent.destroy(uuid_of('second'))
    assert agent.read().held == facts.held


def test_what_a_change_of_the_machine_took_away_is_refused(make, tmp_path):
    agent = make()
    two_cells(tmp_path).cpus(['0,4', '1,5', '2,6', '3,7'], online='0-3')
    agent.read()
    with pytest.raises(errors.ComputeResourcesUnavailable, match='has 4 in all'):
        agent.build(asks(vcpus=5))


def test_a_repeated_build_is_one(make):
    agent = make()
    agent.build(asks(vcpus=6))
    agent.build(asks(vcpus=7))
    assert agent.read().node.vcpus_used == 7
    with pytest.raises(errors.ComputeResourcesUnavailable):
        agent.build(asks(vcpus=9))
    assert agent.read().node.vcpus_used == 7


def test_destroyed(make):
    agent = make()
    agent.build(asks())
    assert (agent.destroy(SERVER), agent.destroy(SERVER)) == (True, False)
    assert agent.instances() == []
    assert agent.read().node.vcpus_used == 0


def test_a_restarted_agent_knows_its_instances(make):
    make().build(asks(vcpus=7))
    agent = make()
    assert (agent.read().instances, agent.read().node.vcpus_used) == ({SERVER}, 7)
    with pytest.raises(errors.ComputeResourcesUnavailable, match='2 asked, 1 available'):
        agent.build(asks(uuid=uuid_of('second')))


def test_failed_builds_are_counted_until_one_is_good(make):
    agent = make()
    for _ in range(2):
        with pytest.raises(errors.ComputeResourcesUnavailable):
            agent.build(asks(vcpus=9))
    assert agent.read().node.stats['failed_builds'] == '2'
    agent.build(asks(), finished=False)
    assert agent.read().node.stats['failed_builds'] == '2'
    agent.finish(SERVER)
    assert agent.read().node.stats['failed_builds'] == '0'


def test_an_instance_that_cannot_be_written_down_goes_elsewhere(make, tmp_path):
    agent = make()
    (tmp_path / 'instances.json.new').mkdir()
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match='cannot take the claim: Cannot read'
    ):
        agent.build(asks())
    assert (agent.instances(), agent.read().instances) == ([], frozenset())


@pytest.mark.parametrize(
    'act, is_news',
    [
        pytest.param(lambda agent: agent.build(asks()), True, id='an instance comes'),
        pytest.param(lambda agent: agent.destroy(SERVER), False, id='one that is not here goes'),
        pytest.param(lambda agent: agent.read(), False, id='a read'),
        pytest.param(lambda agent: agent.instances(), False, id='a question'),
    ],
)
def test_news(make, act, is_news):
    agent = make()
    act(agent)
    assert agent.news.is_set() == is_news


def test_a_refusal_is_news(make):
    agent = make()
    with pytest.raises(errors.ComputeResourcesUnavailable):
        agent.build(asks(vcpus=9))
    assert agent.news.is_set()


def test_a_machine_that_cannot_be_read_makes_no_agent(make):
    with pytest.raises(errors.BadMachineFacts, match='cpu_dedicated_set'):
        make(cpu_dedicated_set='0-99').read()


@each(
    'changes, more',
    [
        pytest.param({}, False, id='the same'),
        pytest.param({'node': node(guests=[guest()])}, True, id='use'),
        pytest.param(
            {'inventories': {NODE: {'inventories': {}, 'traits': ['CUSTOM_X']}}},
            True,
            id='a trait',
        ),
        pytest.param({'held': {SERVER: {}}}, True, id='an instance'),
    ],
)
def test_facts_that_tell_more(changes, more):
    plain = {'node': node(), 'inventories': TREE, 'held': {}}
    assert Facts(**plain | changes).tells_more_than(Facts(**plain)) == more
    assert Facts(**plain).tells_more_than(None)
