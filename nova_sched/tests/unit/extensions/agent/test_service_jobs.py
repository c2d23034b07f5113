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
"""What a job of a queue brings: it takes its room at once, and is told of when it is there to
stay."""

import json

import pytest

from nova_sched import errors
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.unit.extensions.agent.builders import CLAIM, SERVER, agent_of
from nova_sched.tests.unit.extensions.agent.fake_machine import network_card, two_cells
from nova_sched.tests.unit.hardware.builders import dedicated, wanted
from nova_sched.tests.unit.hardware.builders import request as device

OTHER = uuid_of('other')
GPU = {'product_id': '20b0'}


@pytest.fixture
def make(tmp_path):
    """Make the agent of one machine again and again: four shared CPUs, four dedicated ones, and a
    GPU."""
    fake = network_card(two_cells(tmp_path))
    plain = {
        'cpu_allocation_ratio': 1.0,
        'cpu_dedicated_set': '4-7',
        'device_spec': [{'vendor_id': '10de'}],
    }
    return lambda: agent_of(tmp_path, fake, **plain)


@pytest.fixture
def agent(make):
    return make()


def size(vcpus=2, disk_gb=0, uuid=SERVER, **words):
    return request(instance_uuid=uuid, resources={'VCPU': vcpus, 'DISK_GB': disk_gb}, **words)


def pinned(cpus, uuid=SERVER):
    pieces = wanted(dedicated(cpus), requests=[device(1, GPU)])
    return request(instance_uuid=uuid, resources={'PCPU': cpus}, pieces=pieces)


def told(agent):
    """What a report says of the instances, accepted: those it lists, and what each holds."""
    facts = agent.read()
    return facts.instances, {uuid: dict(held) for uuid, held in facts.held.items()}


NOTHING = frozenset(), {}
IT = frozenset({SERVER}), {SERVER: {'VCPU': 2, 'DISK_GB': 0}}


def state(agent):
    (found,) = agent.instances()
    return found['vm_state'], found['move'], found['hidden']


def test_it_is_told_of_when_it_is_kept(agent):
    agent.begin(size())
    facts = agent.read()
    assert told(agent) == NOTHING
    assert (facts.node.vcpus_used, facts.node.running_vms, facts.counted.used) == (0, 0, {})
    agent.keep(SERVER)
    assert told(agent) == IT
    assert agent.read().node.vcpus_used == 2
    assert state(agent) == ('active', None, False)


def test_it_takes_its_room_at_once(agent):
    agent.begin(size(3))
    with pytest.raises(errors.ComputeResourcesUnavailable, match='2 asked, 1 available'):
        agent.begin(size(2, uuid=OTHER))
    with pytest.raises(errors.ComputeResourcesUnavailable, match='2 asked, 1 available'):
        agent.build(size(2, uuid=OTHER))
    assert [one.uuid for one in agent.hidden()] == [SERVER]


def test_it_takes_its_cpus_and_devices_at_once(agent):
    agent.begin(pinned(2))
    (begun,) = agent.hidden()
    free = agent.read().node.machine.topology.cells
    assert sorted(cpu for cell in free for cpu in cell.free_pcpus) == [4, 5, 6, 7], (
        'its claim holds them'
    )
    with pytest.raises(errors.ComputeResourcesUnavailable, match='1 devices asked, 0 free'):
        agent.build(pinned(1, OTHER))
    agent.keep(SERVER)
    free = agent.read().node.machine.topology.cells
    assert sorted(cpu for cell in free for cpu in cell.free_pcpus) == [6, 7]
    assert agent.instances()[0]['devices'] == sorted(begun.devices) == ['0000:81:00.0']


def test_facts_with_what_is_hidden(agent):
    agent.build(size(1, uuid=OTHER))
    agent.begin(size(2))
    facts = agent.facts_with_hidden()
    assert facts.instances == {SERVER, OTHER}
    assert facts.counted.used == {'VCPU': 3, 'DISK_GB': 0}
    assert (facts.node.vcpus_used, facts.node.stats['io_workload']) == (3, '1')
    agent.keep(SERVER)
    reported = agent.read()
    assert not agent.facts_with_hidden().tells_more_than(reported)
    assert agent.facts_with_hidden().held == reported.held


def test_they_are_of_the_last_read_of_the_machine(agent, tmp_path):
    """So that they can be asked for after each job."""
    two_cells(tmp_path).cpus(['0,4', '1,5', '2,6', '3,7'], online='0-5')
    before = agent.facts_with_hidden()
    agent.read()
    after = agent.facts_with_hidden()
    assert [
        one.inventories[one.node.uuid]['inventories']['PCPU']['total'] for one in (before, after)
    ] == [
        4,
        2,
    ]


def test_a_restarted_agent_knows_what_was_begun(make):
    make().begin(size())
    agent = make()
    assert [one.uuid for one in agent.hidden()] == [SERVER]
    assert told(agent) == NOTHING
    agent.keep(SERVER)
    again = make()
    assert (again.hidden(), told(again)) == ([], IT)


def test_what_is_undone_was_never_told(agent):
    agent.begin(size())
    assert agent.undo(SERVER)
    assert (agent.instances(), told(agent)) == ([], NOTHING)
    assert not agent.undo(SERVER)


def test_what_is_built_is_listed_before_it_is_kept(make):
    """Its claim is confirmed in between, and two reports without it would end that."""
    agent = make()
    agent.begin(size())
    agent.built(SERVER, CLAIM)
    assert told(agent) == IT
    assert [one.uuid for one in agent.hidden()] == [SERVER]
    assert told(make()) == NOTHING, 'who is started anew has to ask for its claim first'
    assert make().claim_name(SERVER) == CLAIM
    agent.keep(SERVER)
    assert make().claim_name(SERVER) == CLAIM
    assert told(agent) == IT


@pytest.mark.parametrize('end', ['undo', 'destroy'])
def test_what_was_built_and_has_gone_is_not_listed(agent, end):
    agent.begin(size())
    agent.built(SERVER, CLAIM)
    assert getattr(agent, end)(SERVER)
    assert told(agent) == NOTHING
    agent.begin(size())
    assert told(agent) == NOTHING


def test_an_instance_that_is_built_again_is_hidden_again(agent):
    agent.begin(size())
    agent.built(SERVER, CLAIM)
    agent.begin(size(1))
    assert told(agent) == NOTHING
    assert agent.facts_with_hidden().node.vcpus_used == 1


def test_a_job_that_comes_again_leaves_what_is_here(agent):
    """Its instance was kept, but the answer was lost."""
    agent.begin(size(2))
    agent.keep(SERVER)
    before = agent.instances()
    again = agent.begin(size(9))
    assert (again.hidden, agent.instances(), told(agent)) == (False, before, IT)
    assert not agent.undo(SERVER)
    assert agent.instances() == before
    agent.keep(SERVER)
    assert agent.instances() == before


@pytest.mark.parametrize('move', ['resize', 'migration'])
def test_one_that_comes_from_another_host(make, move):
    make().begin(size(), move)
    agent = make()
    assert state(agent) == ('building', move, True)
    assert told(agent) == NOTHING
    agent.keep(SERVER)
    assert (state(agent), told(agent)) == (('active', None, False), IT)
    with pytest.raises(errors.NotFound):
        agent.revert_resize(SERVER)


def test_one_that_comes_and_goes_back(agent):
    agent.begin(size(), 'resize')
    assert agent.undo(SERVER)
    assert (agent.instances(), told(agent)) == ([], NOTHING)


@pytest.mark.parametrize(
    'settle, held', [('keep', {'VCPU': 4, 'DISK_GB': 2}), ('undo', {'VCPU': 2, 'DISK_GB': 1})]
)
def test_another_size_where_it_is(agent, settle, held):
    """It is told of all the time; both sizes take their room until that is settled."""
    agent.build(size(2, 1))
    for _ in range(2):
        assert not agent.begin(size(4, 2), 'resize').hidden
        assert told(agent) == ({SERVER}, {SERVER: {'VCPU': 4, 'DISK_GB': 3}})
    getattr(agent, settle)(SERVER)
    assert told(agent) == ({SERVER}, {SERVER: held})
    assert state(agent) == ('active', None, False)


@pytest.mark.parametrize(
    'asked, move',
    [
        pytest.param(size(2, 1), 'resize', id='the size that it has'),
        pytest.param(size(4, 1), 'migration', id='to where it is'),
    ],
)
def test_a_move_that_comes_again_leaves_what_is_here(agent, asked, move):
    agent.begin(size(2, 1), move)
    agent.keep(SERVER)
    before = agent.instances()
    agent.begin(asked, move)
    assert agent.instances() == before


def test_other_cpus_are_another_size(agent):
    agent.build(pinned(2))
    assert agent.begin(pinned(2), 'resize').is_open


@pytest.mark.parametrize('method, args', [('keep', ()), ('built', (CLAIM,))])
def test_what_is_not_here(agent, method, args):
    with pytest.raises(errors.NotFound, match=f'Instance {SERVER} on host cmp1'):
        getattr(agent, method)(SERVER, *args)


def test_what_does_not_fit_is_refused_and_explained(agent, caplog):
    with pytest.raises(errors.ComputeResourcesUnavailable, match='9 asked'):
        agent.begin(size(9))
    assert (agent.instances(), agent.read().node.stats['failed_builds']) == ([], '0')
    assert f'Instance {SERVER} is refused: ' in caplog.text


def test_failed_builds_are_counted_until_one_is_good(agent):
    for _ in range(2):
        agent.begin(size())
        agent.undo(SERVER, failed=True)
    agent.begin(size())
    agent.undo(SERVER)
    assert agent.read().node.stats['failed_builds'] == '2'
    agent.begin(size())
    agent.keep(SERVER)
    assert agent.read().node.stats['failed_builds'] == '0'


def test_what_cannot_be_written_down_is_not_done(agent, tmp_path):
    agent.begin(size(uuid=OTHER))
    (tmp_path / 'instances.json.new').mkdir()
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match='cannot take the claim: Cannot read'
    ):
        agent.begin(size())
    for end in (agent.keep, agent.undo):
        with pytest.raises(errors.BadMachineFacts):
            end(OTHER)
    assert [one.uuid for one in agent.hidden()] == [OTHER]
    assert told(agent) == NOTHING


def test_the_file_says_what_is_hidden(agent, tmp_path):
    agent.begin(size())
    (written,) = json.loads((tmp_path / 'instances.json').read_text())['instances']
    assert (written['uuid'], written['hidden']) == (SERVER, True)


CHANGES = [
    pytest.param([], lambda agent: agent.begin(size()), True, False, id='begun'),
    pytest.param(['begin'], lambda agent: agent.keep(SERVER), True, True, id='kept'),
    pytest.param(['begin'], lambda agent: agent.undo(SERVER), True, False, id='undone'),
    pytest.param(
        ['begin'], lambda agent: agent.undo(SERVER, failed=True), True, True, id='failed'
    ),
    pytest.param([], lambda agent: agent.undo(SERVER), False, False, id='nothing to undo'),
    pytest.param([], lambda agent: agent.build(size()), True, True, id='built'),
    pytest.param(['build'], lambda agent: agent.finish(SERVER), True, True, id='finished'),
    pytest.param(['build'], lambda agent: agent.destroy(SERVER), True, True, id='destroyed'),
    pytest.param([], lambda agent: agent.destroy(SERVER), False, False, id='nothing to destroy'),
    pytest.param(
        ['build'], lambda agent: agent.begin(size()), False, False, id='a job that comes again'
    ),
    pytest.param(
        ['build'], lambda agent: agent.begin(size(3), 'resize'), True, True, id='a job to resize'
    ),
    pytest.param(['build'], lambda agent: agent.resize(size(3)), True, True, id='resized'),
    pytest.param(
        ['build', 'resize'],
        lambda agent: agent.confirm_resize(SERVER),
        True,
        True,
        id='resize confirmed',
    ),
    pytest.param(
        ['build', 'resize'],
        lambda agent: agent.revert_resize(SERVER),
        True,
        True,
        id='resize reverted',
    ),
    pytest.param([], lambda agent: agent.read(), False, False, id='a read'),
]


@pytest.mark.parametrize('before, act, is_change, is_news', CHANGES)
def test_who_watches_is_called_after_each_change(agent, before, act, is_change, is_news):
    for name in before:
        getattr(agent, name)(size())
    seen = []
    # What it asks for needs the agent's lock.
    agent.watch(lambda: seen.append(agent.facts_with_hidden().instances))
    agent.news.clear()
    act(agent)
    assert seen == ([agent.facts_with_hidden().instances] if is_change else [])
    assert agent.news.is_set() == is_news


def test_a_refused_job_calls_no_watcher(agent):
    agent.watch(lambda: pytest.fail('nothing has changed'))
    for take in (agent.begin, agent.build, agent.resize):
        with pytest.raises(errors.ComputeResourcesUnavailable):
            take(size(9))
