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
"""Over a bus: an instance that moves or gets another size, until that is settled."""

import pytest

from nova_sched import errors
from nova_sched.claim import DISK_GB, MOVES, VCPU
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import spec
from nova_sched.tests.options import told_all

ONE = uuid_of('one')
SMALL, LARGE = {'vcpus': 2, 'root_gb': 10}, {'vcpus': 4, 'root_gb': 20}


def held(daemon):
    """(host, state, move, CPUs, GiB of disk) of each claim of the instance."""
    return [
        (one.host, one.state, one.move, one.resources[VCPU], one.resources.get(DISK_GB, 0))
        for one in daemon.claims.show(ONE)
    ]


HERE = 'a', 'confirmed', None, 2, 10
COMING, THERE = ('b', 'pending', 'resize', 4, 20), ('b', 'confirmed', 'resize', 4, 20)
SETTLED = 'b', 'confirmed', None, 4, 20


@pytest.fixture
def running(daemon):
    """The daemon with three hosts; the instance runs on the first of them."""
    daemon.add('a', 'b', 'c')
    daemon.claims.instance_claim(spec(**SMALL), ONE, 'a', 'a')
    daemon.add('a', instances=[ONE])
    return daemon


def resize(daemon, host='b', size=LARGE, **words):
    return daemon.claims.resize_claim(spec(**size), ONE, host, host, **words)


def arrive(daemon):
    resize(daemon)
    daemon.add('b', instances=[ONE])


def test_a_resize_that_is_confirmed(running):
    claim = resize(running)
    assert (claim.host, claim.state, claim.move) == ('b', 'pending', 'resize')
    assert held(running) == [HERE, COMING]
    running.add('a', instances=[])
    running.add('b', instances=[ONE])
    assert held(running) == [HERE, THERE]
    for _ in range(2):
        (claim,) = running.claims.confirm_claim(ONE, 'b')
        assert (claim.host, claim.state, claim.move) == ('b', 'confirmed', None)
    assert held(running) == [SETTLED]
    assert running.boot('two', vcpus=8) in (['a'], ['c'])


def test_a_resize_that_is_taken_back(running):
    arrive(running)
    running.add('a', instances=[])
    (claim,) = running.claims.revert_claim(ONE)
    assert claim.host == 'a'
    assert held(running) == [HERE]
    assert len(running.table('claims')) == 1


@pytest.mark.parametrize('move', MOVES)
def test_a_move_has_its_name_until_it_is_settled(running, move):
    assert resize(running, move=move).move == move
    assert held(running) == [HERE, ('b', 'pending', move, 4, 20)]
    running.claims.confirm_claim(ONE, 'b')
    assert held(running) == [SETTLED]


@pytest.mark.parametrize(
    'move, left',
    [
        pytest.param('resize', [HERE, THERE], id='resize'),
        pytest.param('migration', [HERE, ('b', 'confirmed', 'migration', 4, 20)], id='migration'),
        pytest.param(
            'live-migration', [('b', 'confirmed', 'live-migration', 4, 20)], id='live migration'
        ),
        pytest.param('evacuation', [('b', 'confirmed', 'evacuation', 4, 20)], id='evacuation'),
    ],
)
def test_which_moves_keep_their_source_whatever_its_node_says(running, move, left):
    resize(running, move=move)
    running.add('b', instances=[ONE])
    running.add('a', instances=[])
    assert held(running) == left


def test_a_host_that_was_chosen_before_is_claimed_by_the_move(running):
    """The claim that the choice left there is the move's from then on."""
    (found,) = running.scheduler.select_destinations(spec(**LARGE, ignore_hosts=['a', 'c']), [ONE])
    assert [one.service_host for one in found] == ['b']
    assert held(running) == [HERE, ('b', 'pending', None, 4, 20)]
    resize(running)
    assert held(running) == [HERE, COMING]


def test_an_alternate_goes_on_with_the_move(running):
    resize(running)
    claim = running.claims.claim_alternate(spec(**LARGE), ONE, 'b', 'c', 'c')
    assert claim.move == 'resize'
    assert held(running) == [HERE, ('c', 'pending', 'resize', 4, 20)]


# Where it is.


def test_a_resize_in_place_holds_what_both_sizes_need(running):
    claim = resize(running, 'a')
    assert (claim.host, claim.state, claim.move) == ('a', 'confirmed', None)
    assert held(running) == [('a', 'confirmed', None, 4, 30)]


@pytest.mark.parametrize(
    'settle, size',
    [
        pytest.param(
            lambda daemon: daemon.claims.confirm_claim(ONE, 'a'), (4, 20), id='confirmed'
        ),
        pytest.param(lambda daemon: daemon.claims.revert_claim(ONE), (2, 10), id='reverted'),
    ],
)
def test_a_resize_in_place_is_settled(running, settle, size):
    resize(running, 'a')
    settle(running)
    settled = [('a', 'confirmed', None, *size)]
    assert held(running) == settled
    running.add('a', instances=[ONE])
    assert held(running) == settled


def test_a_resize_in_place_that_fails_goes_elsewhere_as_a_resize(running):
    """The source is kept as for every resize: it is where the instance goes back to."""
    resize(running, 'a')
    running.claims.claim_alternate(spec(**LARGE), ONE, 'a', 'b', 'b')
    assert held(running) == [HERE, COMING]


# What cannot be done.


@pytest.mark.parametrize(
    'before',
    [
        pytest.param(lambda daemon: daemon.claims.abort_claim(ONE), id='no claim'),
        pytest.param(lambda daemon: None, id='no move'),
        pytest.param(
            lambda daemon: daemon.claims.instance_claim(spec(), ONE, 'b', 'b'), id='no known move'
        ),
        pytest.param(
            lambda daemon: (resize(daemon), daemon.claims.confirm_claim(ONE, 'b')),
            id='confirmed before',
        ),
        pytest.param(
            lambda daemon: (resize(daemon), daemon.claims.revert_claim(ONE)), id='reverted before'
        ),
        pytest.param(
            lambda daemon: (resize(daemon, 'a'), daemon.claims.confirm_claim(ONE, 'a')),
            id='confirmed in place before',
        ),
    ],
)
def test_there_is_nothing_to_take_back(running, before):
    before(running)
    state = running.state()
    with pytest.raises(
        errors.ClaimNotFound, match=f'no claim of a move or resize of instance {ONE}'
    ):
        running.claims.revert_claim(ONE)
    assert running.state() == state


def test_a_move_whose_source_has_gone_is_not_taken_back(running):
    resize(running, move='live-migration')
    running.add('b', instances=[ONE])
    running.add('a', instances=[])
    state = running.state()
    with pytest.raises(errors.Outdated, match='the claim is confirmed'):
        running.claims.revert_claim(ONE)
    assert running.state() == state


def test_what_was_taken_back_cannot_be_confirmed(running):
    resize(running)
    running.claims.revert_claim(ONE)
    with pytest.raises(errors.ClaimNotFound, match=f'instance {ONE} on host b'):
        running.claims.confirm_claim(ONE, 'b')
    assert held(running) == [HERE]


def test_confirming_the_source_settles_nothing(running):
    resize(running)
    running.claims.confirm_claim(ONE, 'a')
    assert held(running) == [HERE, COMING]


@pytest.mark.parametrize(
    'host, size, short',
    [
        pytest.param('b', {'vcpus': 9}, 'VCPU: 9 asked, the node has 8 in all', id='elsewhere'),
        pytest.param(
            'a', {'vcpus': 9, 'root_gb': 10}, 'VCPU: 9 asked, the node has 8 in all', id='in place'
        ),
        pytest.param(
            'a',
            {'vcpus': 4, 'root_gb': 95},
            'DISK_GB: 105 asked, the node has 100 in all',
            id='in place, both disks',
        ),
    ],
)
def test_a_size_that_does_not_fit(running, host, size, short):
    before = running.state()
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        resize(running, host, size)
    assert refused.value.shortages == short
    assert running.state() == before


# A choice in which the host where it is may be the answer.


@pytest.mark.parametrize(
    'size, holds',
    [
        pytest.param({'vcpus': 7, 'root_gb': 20}, (7, 30), id='larger'),
        pytest.param({'vcpus': 1, 'root_gb': 5}, (2, 15), id='smaller'),
        pytest.param({'vcpus': 8, 'root_gb': 90}, (8, 100), id='all that there is'),
    ],
)
def test_a_choice_counts_what_both_sizes_need_together(running, size, holds):
    """Larger sizes would not fit next to the old one, but they do not have to."""
    only_here = spec(**size, ignore_hosts=['b', 'c'])
    (found,) = running.scheduler.select_destinations(only_here, [ONE])
    assert [one.service_host for one in found] == ['a']
    assert held(running) == [('a', 'confirmed', None, *holds)]


@pytest.mark.parametrize(
    'size, short',
    [
        pytest.param({'vcpus': 9}, '9 vCPUs asked, the host has 8 in all', id='CPUs'),
        pytest.param(
            {'vcpus': 2, 'root_gb': 95},
            '105 GiB of disk asked, the host has 100 in all',
            id='both disks',
        ),
    ],
)
def test_a_choice_refuses_what_both_sizes_need_together(running, size, short):
    before = running.state()
    with told_all(), pytest.raises(errors.NoValidHost, match=short):
        running.scheduler.select_destinations(spec(**size, ignore_hosts=['b', 'c']), [ONE])
    assert running.state() == before


def test_a_choice_passes_over_the_host_that_cannot_take_both_sizes(daemon):
    """Thin disks: each of the sizes may be placed, both together are more than one may have."""
    daemon.add('a', 'b', disk_allocation_ratio=4.0)
    daemon.claims.instance_claim(spec(root_gb=60), ONE, 'a', 'a')
    daemon.add('a', instances=[ONE], disk_allocation_ratio=4.0)
    daemon.claims.instance_claim(
        spec(vcpus=7), uuid_of('two'), 'b', 'b'
    )  # the other host is preferred
    (found,) = daemon.scheduler.select_destinations(spec(root_gb=70), [ONE])
    assert [one.service_host for one in found] == ['b']
