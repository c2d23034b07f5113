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
"""The conductor's dance: build, fail, claim the next alternate, give up: on one scheduling
pass."""

import pytest
from oslo_context.context import RequestContext

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import spec
from nova_sched.tests.options import settings

ONE = uuid_of('one')


class Computes:
    """Hosts where builds fail until told otherwise; notes where each instance's claims were at the
    time."""

    def __init__(self, daemon, works_on=()):
        self.works_on = set(works_on)
        self.seen = []
        self._daemon = daemon

    def build(self, instance_uuid, selection):
        claims = {claim.host: claim.state for claim in self._daemon.claims.show(instance_uuid)}
        self.seen.append((selection.service_host, claims))
        if selection.service_host not in self.works_on:
            raise errors.ComputeResourcesUnavailable(
                selection.compute_node_uuid, 'the build failed'
            )


@pytest.fixture
def passes(daemon):
    """Instances that were placed by scheduling passes since the start of the test."""
    before = daemon.figures.placed
    return lambda: daemon.figures.placed - before


def test_the_first_host_works(daemon, passes):
    daemon.add('a', 'b', 'c', 'd')
    computes = Computes(daemon, 'abcd')
    (where,) = daemon.conductor.boot(spec(), [ONE], computes.build)
    assert computes.seen == [(where.service_host, {where.service_host: 'pending'})]
    assert passes() == 1


def test_the_last_alternate_works(daemon, passes):
    daemon.add('a', 'b', 'c', 'd', 'e')
    computes = Computes(daemon)

    def build(instance_uuid, selection):
        if len(computes.seen) == 3:
            computes.works_on.add(selection.service_host)
        computes.build(instance_uuid, selection)

    with settings({'scheduler.max_attempts': 4}):
        (where,) = daemon.conductor.boot(spec(), [ONE], build)
    tried = [host for host, _ in computes.seen]
    assert len(set(tried)) == 4
    assert tried[-1] == where.service_host
    assert computes.seen == [(host, {host: 'pending'}) for host in tried]
    assert daemon.hosts_of('one') == {where.service_host: 'pending'}
    assert passes() == 1


def test_no_host_works(daemon, passes):
    daemon.add('a', 'b', 'c', 'd')
    computes = Computes(daemon)
    with pytest.raises(errors.MaxRetriesExceeded) as exhausted:
        daemon.conductor.boot(spec(), [ONE], computes.build)
    tried = [host for host, _ in computes.seen]
    assert computes.seen == [(host, {host: 'pending'}) for host in tried]
    assert len(tried) == 3
    assert str(exhausted.value) == (
        f'Exhausted all hosts available for instance {ONE}: tried {", ".join(tried)}'
    )
    assert daemon.table('claims') == []
    assert passes() == 1


def test_an_alternate_that_filled_up_meanwhile_is_passed_over(daemon, passes):
    daemon.add('a', 'b', 'c', vcpus=1)
    computes = Computes(daemon)

    def build(instance_uuid, selection):
        if not computes.seen:
            computes.works_on = {'a', 'b', 'c'} - {selection.service_host}
            computes.full = min(computes.works_on)
            daemon.claims.instance_claim(spec(), uuid_of('thief'), computes.full, computes.full)
        computes.build(instance_uuid, selection)

    (where,) = daemon.conductor.boot(spec(), [ONE], build)
    assert len(computes.seen) == 2
    assert where.service_host != computes.full
    assert daemon.hosts_of('one') == {where.service_host: 'pending'}
    assert daemon.hosts_of('thief') == {computes.full: 'pending'}
    assert passes() == 1


def test_of_several_instances_each_has_its_own_dance(daemon, passes):
    daemon.add('a', 'b', 'c', 'd', vcpus=1)
    first = []

    def build(instance_uuid, selection):
        if instance_uuid == ONE and not first:
            first.append(selection.service_host)
            raise errors.ComputeResourcesUnavailable(
                selection.compute_node_uuid, 'the build failed'
            )

    found = daemon.conductor.boot(spec(), [ONE, uuid_of('two')], build)
    hosts = [selection.service_host for selection in found]
    assert len({*first, *hosts}) == 3
    assert [daemon.hosts_of(name) for name in ('one', 'two')] == [
        {host: 'pending'} for host in hosts
    ]
    assert passes() == 2


def test_no_host_at_all(daemon, passes):
    with pytest.raises(errors.NoValidHost):
        daemon.conductor.boot(spec(), [ONE], build=None)
    assert passes() == 0


def test_a_build_that_fails_for_another_reason_is_not_tried_elsewhere(daemon):
    daemon.add('a', 'b')

    def build(instance_uuid, selection):
        raise ValueError('the image is broken')

    with pytest.raises(ValueError, match='the image is broken'):
        daemon.conductor.boot(spec(), [ONE], build)


def test_every_alternate_is_an_object_that_a_claim_can_be_made_from(daemon):
    daemon.add('a', 'b', 'c')
    (found,) = daemon.scheduler.select_destinations(spec(), [ONE])
    assert {type(selection) for selection in found} == {objects.Selection}
    assert [selection.nodename for selection in found] == [
        selection.service_host for selection in found
    ]


# A move.


@pytest.fixture
def at_home(daemon):
    """The daemon with four hosts; the instance runs on the first."""
    daemon.add('a', 'b', 'c', 'd')
    daemon.claims.instance_claim(spec(vcpus=2), ONE, 'a', 'a')
    daemon.add('a', instances=[ONE])
    return daemon


def moves(daemon):
    """host -> what brings the instance there, its CPUs."""
    return {claim.host: (claim.move, claim.resources['VCPU']) for claim in daemon.claims.show(ONE)}


def larger(**words):
    return spec(vcpus=4, **words)


def test_a_move_to_the_first_host_that_works(at_home):
    computes = Computes(at_home)

    def start(instance_uuid, selection):
        if len(computes.seen) == 1:
            computes.works_on.add(selection.service_host)
        computes.build(instance_uuid, selection)

    where = at_home.conductor.move(larger(ignore_hosts=['a']), ONE, start)
    assert [claims for _, claims in computes.seen] == [
        {'a': 'confirmed', host: 'pending'} for host, _ in computes.seen
    ]
    assert moves(at_home) == {'a': (None, 2), where.service_host: ('resize', 4)}


def test_a_move_has_the_name_that_it_was_given(at_home):
    where = at_home.conductor.move(
        larger(ignore_hosts=['a']), ONE, Computes(at_home, 'bcd').build, 'evacuation'
    )
    assert moves(at_home)[where.service_host] == ('evacuation', 4)


def test_a_resize_in_place_if_that_is_allowed(at_home):
    where = at_home.conductor.move(
        larger(ignore_hosts=['b', 'c', 'd']), ONE, Computes(at_home, 'a').build
    )
    assert (where.service_host, moves(at_home)) == ('a', {'a': (None, 4)})
    at_home.claims.revert_claim(ONE)
    assert moves(at_home) == {'a': (None, 2)}


@pytest.mark.parametrize('elsewhere', [['a'], ['b', 'c', 'd'], ['c', 'd'], []])
def test_a_move_that_fails_everywhere_leaves_the_claim_that_there_was(at_home, elsewhere):
    computes = Computes(at_home)
    before = [claim.uuid for claim in at_home.claims.show(ONE)]
    with pytest.raises(errors.MaxRetriesExceeded):
        at_home.conductor.move(larger(ignore_hosts=elsewhere), ONE, computes.build)
    assert moves(at_home) == {'a': (None, 2)}
    assert [claim.uuid for claim in at_home.claims.show(ONE)] == before
    assert len(computes.seen) == min(3, 4 - len(elsewhere))


def test_a_move_to_nowhere(at_home):
    before = at_home.state()
    with pytest.raises(errors.NoValidHost):
        at_home.conductor.move(spec(vcpus=9), ONE, Computes(at_home).build)
    assert at_home.state() == before


@pytest.mark.parametrize('elsewhere', [['a'], ['b', 'c', 'd']])
def test_all_calls_of_a_move_may_have_one_context(at_home, elsewhere):
    """As those of a conductor do: what it asks later is no repetition of what it asked first."""
    computes, context = Computes(at_home), RequestContext(overwrite=False)

    def start(instance_uuid, selection):
        if computes.seen or elsewhere != ['a']:
            computes.works_on.add(selection.service_host)
        computes.build(instance_uuid, selection)

    where = at_home.conductor.move(larger(ignore_hosts=elsewhere), ONE, start, context=context)
    assert moves(at_home)[where.service_host] == ('resize' if elsewhere == ['a'] else None, 4)
    at_home.claims.revert_claim(ONE, context=context)
    assert moves(at_home) == {'a': (None, 2)}
    assert at_home.conductor.move(larger(ignore_hosts=elsewhere), ONE, start, context=context)
