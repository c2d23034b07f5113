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
"""A size that an instance gets here, or with which it comes here: held until it is settled."""

import pytest

from nova_sched import errors
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.unit.extensions.agent.builders import CLAIM, LATER, SERVER, agent_of
from nova_sched.tests.unit.extensions.agent.fake_machine import network_card, two_cells
from nova_sched.tests.unit.hardware.builders import dedicated, wanted
from nova_sched.tests.unit.hardware.builders import request as device

OTHER = uuid_of('other')
GPU = {'product_id': '20b0'}


@pytest.fixture
def make(tmp_path):
    """Make the agent of one machine again and again.

    It has four shared CPUs, which it sells twice, four dedicated ones in two cells, and a GPU.
    """
    fake = network_card(two_cells(tmp_path))
    plain = {
        'cpu_allocation_ratio': 2.0,
        'cpu_dedicated_set': '4-7',
        'device_spec': [{'vendor_id': '10de'}],
    }
    return lambda: agent_of(tmp_path, fake, **plain)


def size(vcpus, disk_gb=0, uuid=SERVER, **words):
    return request(instance_uuid=uuid, resources={'VCPU': vcpus, 'DISK_GB': disk_gb}, **words)


def pinned(cpus, uuid=SERVER, requests=()):
    pieces = wanted(dedicated(cpus), requests=requests)
    return request(instance_uuid=uuid, resources={'PCPU': cpus}, pieces=pieces)


def held(agent):
    return agent.read().held.get(SERVER)


def one(agent):
    (found,) = agent.instances()
    return found


def free(agent):
    """CPUs that are still free, by what the agent reports."""
    return sorted(
        cpu for cell in agent.read().node.machine.topology.cells for cpu in cell.free_pcpus
    )


@pytest.mark.parametrize(
    'old, new, both',
    [
        pytest.param((2, 0), (4, 0), (4, 0), id='more CPUs'),
        pytest.param((4, 0), (2, 0), (4, 0), id='fewer'),
        pytest.param((2, 1), (2, 2), (2, 3), id='both disks'),
        pytest.param((4, 1), (2, 1), (4, 2), id='all of it'),
        pytest.param((4, 1), (4, 1), (4, 1), id='the same'),
    ],
)
@pytest.mark.parametrize('settle, stays', [('confirm_resize', 'new'), ('revert_resize', 'old')])
def test_in_place(make, old, new, both, settle, stays):
    make().build(size(*old))
    make().resize(size(*new))
    agent = make()
    assert held(agent) == dict(zip(('VCPU', 'DISK_GB'), both, strict=True))
    assert one(agent)['vm_state'] == 'resized'
    getattr(agent, settle)(SERVER)
    agent = make()
    assert held(agent) == dict(
        zip(('VCPU', 'DISK_GB'), {'old': old, 'new': new}[stays], strict=True)
    )
    assert one(agent)['vm_state'] == 'active'


@pytest.mark.parametrize('call', ['confirm_resize', 'revert_resize', 'destroy'])
@pytest.mark.parametrize('is_here', [True, False], ids=['in place', 'from another host'])
def test_a_late_call_that_names_another_claim_changes_nothing(make, call, is_here):
    agent = make()
    if is_here:
        agent.build(size(2), claim=CLAIM)
        agent.resize(size(3), CLAIM)
        agent.confirm_resize(SERVER, CLAIM)
        late = uuid_of('the resize before')
    else:
        late = CLAIM
    agent.resize(size(4), LATER)
    before = make().instances()
    if call == 'destroy':
        assert not agent.destroy(SERVER, late)
    else:
        with pytest.raises(errors.NotFound):
            getattr(agent, call)(SERVER, late)
    assert (agent.instances(), make().instances()) == (before, before)
    getattr(agent, call)(SERVER, LATER)
    assert agent.instances() != before


@pytest.mark.parametrize('known, named', [(None, CLAIM), (CLAIM, None)])
def test_a_name_that_one_of_both_does_not_know_contradicts_nothing(make, known, named):
    agent = make()
    agent.build(size(2), claim=known)
    agent.resize(size(4), known)
    agent.revert_resize(SERVER, named)
    assert held(agent)['VCPU'] == 2
    assert agent.destroy(SERVER, named)


def test_a_resize_gives_its_name(make):
    """As it does in the store, and a claim is named by its open resize."""
    agent = make()
    agent.build(size(2), claim=CLAIM)
    agent.resize(size(4), LATER)
    assert (one(agent)['claim_uuid'], agent.claim_name(SERVER)) == (CLAIM, LATER)
    agent.confirm_resize(SERVER, LATER)
    assert one(agent)['claim_uuid'] == make().claim_name(SERVER) == LATER
    agent.resize(size(1), CLAIM)
    assert agent.destroy(SERVER, LATER)


def test_what_both_sizes_need_is_not_for_others(make):
    agent = make()
    agent.build(size(2, uuid=uuid_of('third')))
    agent.build(size(4))
    agent.resize(size(1))
    with pytest.raises(errors.ComputeResourcesUnavailable, match='3 asked, 2 available'):
        agent.build(size(3, uuid=OTHER))
    agent.confirm_resize(SERVER)
    agent.build(size(3, uuid=OTHER))


@pytest.mark.parametrize(
    'old, new, short',
    [
        pytest.param(
            size(2), size(9), 'VCPU: 9 asked, the node has 4 in all', id='the new size alone'
        ),
        pytest.param(size(2), size(3, 9999), 'DISK_GB', id='its disk'),
        pytest.param(
            pinned(2), pinned(3), 'needs 3 dedicated CPUs, the best host cell has 2', id='CPUs'
        ),
    ],
)
def test_what_does_not_fit_leaves_all_as_it_was(make, caplog, old, new, short):
    agent = make()
    agent.build(old)
    before = agent.instances()
    with pytest.raises(errors.ComputeResourcesUnavailable, match=short):
        agent.resize(new)
    assert (agent.instances(), agent.read().node.stats['failed_builds']) == (before, '0')
    assert f'Instance {SERVER} is refused: ' in caplog.text
    with pytest.raises(errors.NotFound):
        agent.revert_resize(SERVER)


def test_both_disks_have_to_fit(make):
    agent = make()
    disk_gb = agent.read().node.local_gb
    agent.build(size(1, disk_gb // 2 + 1))
    with pytest.raises(errors.ComputeResourcesUnavailable, match='DISK_GB'):
        agent.resize(size(1, disk_gb // 2 + 2))


def test_a_repeated_resize_takes_the_place_of_the_first(make):
    agent = make()
    agent.build(size(1))
    agent.resize(size(4))
    agent.resize(size(2))
    assert held(agent)['VCPU'] == 2
    agent.revert_resize(SERVER)
    assert held(agent)['VCPU'] == 1


def test_new_cpus_are_held_but_not_reported_until_the_resize_is_settled(make):
    """The scheduler holds them in addition to the report."""
    agent = make()
    agent.build(pinned(1))
    assert free(agent) == [5, 6, 7]
    agent.resize(pinned(2))
    assert free(agent) == [5, 6, 7]
    agent.build(pinned(2, OTHER))
    with pytest.raises(errors.ComputeResourcesUnavailable):
        agent.build(pinned(1, uuid_of('third')))
    agent.confirm_resize(SERVER)
    assert free(agent) == []
    agent.destroy(SERVER)
    assert free(agent) == [4, 5]


@pytest.mark.parametrize(
    'end, cpus, devices',
    [pytest.param('confirm_resize', [6, 7], 0), pytest.param('revert_resize', [5, 6, 7], 1)],
)
def test_both_sizes_are_reported_while_the_claim_is_confirmed(make, end, cpus, devices):
    """The scheduler takes for reported what its claim has: the old ones, or the new ones."""
    agent = make()

    def left():
        return free(agent), agent.read().node.machine.free_devices

    agent.build(pinned(1))
    agent.resize(pinned(2, requests=[device(1, GPU)]))
    assert left() == ([5, 6, 7], 1)
    agent.built(SERVER, CLAIM)
    assert left() == ([6, 7], 0)
    getattr(agent, end)(SERVER)
    assert left() == (cpus, devices)
    agent.resize(pinned(1))
    assert left() == (cpus, devices)


def test_a_device_of_either_size_is_for_no_other_instance(make):
    agent = make()
    agent.build(pinned(1))
    agent.resize(pinned(1, requests=[device(1, GPU)]))
    assert (one(agent)['devices'], one(agent)['new_devices']) == ([], ['0000:81:00.0'])
    with pytest.raises(errors.ComputeResourcesUnavailable, match='1 devices asked, 0 free'):
        agent.build(pinned(1, OTHER, [device(1, GPU)]))
    agent.resize(pinned(1, requests=[device(1, GPU)]))  # it may have its own again
    agent.confirm_resize(SERVER)
    assert (one(agent)['devices'], one(agent)['new_devices']) == (['0000:81:00.0'], [])
    agent.resize(pinned(1))
    agent.revert_resize(SERVER)
    assert one(agent)['devices'] == ['0000:81:00.0']


def test_one_that_comes_is_listed_at_once_and_stays_when_it_is_confirmed(make):
    agent = make()
    agent.news.clear()
    agent.resize(size(3))
    assert agent.news.is_set()
    assert (agent.read().instances, held(agent)['VCPU']) == ({SERVER}, 3)
    assert (one(agent)['vm_state'], one(agent)['move']) == ('resized', 'resize')
    agent = make()
    agent.confirm_resize(SERVER)
    assert (one(agent)['vm_state'], one(agent)['move'], held(agent)['VCPU']) == ('active', None, 3)


def test_one_that_comes_and_goes_back(make):
    agent = make()
    agent.resize(size(3))
    agent.resize(size(4))
    agent.news.clear()
    agent.revert_resize(SERVER)
    assert agent.news.is_set()
    assert agent.instances() == []
    assert agent.read().instances == frozenset()


@pytest.mark.parametrize('settle', ['confirm_resize', 'revert_resize'])
@pytest.mark.parametrize(
    'before',
    [
        pytest.param([], id='not here'),
        pytest.param(['build'], id='not resized'),
        pytest.param(['build', 'resize', 'confirm_resize'], id='settled'),
    ],
)
def test_settling_what_is_not_open(make, settle, before):
    agent = make()
    for name in before:
        getattr(agent, name)(SERVER if name == 'confirm_resize' else size(1))
    with pytest.raises(errors.NotFound, match=f'Resize of instance {SERVER} on host cmp1'):
        getattr(agent, settle)(SERVER)


def test_what_cannot_be_written_down_is_not_done(make, tmp_path):
    agent = make()
    agent.build(size(1))
    (tmp_path / 'instances.json.new').mkdir()
    with pytest.raises(errors.ComputeResourcesUnavailable, match='Cannot read'):
        agent.resize(size(2))
    assert held(agent)['VCPU'] == 1
