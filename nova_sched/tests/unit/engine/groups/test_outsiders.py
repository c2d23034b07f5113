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
"""Exclusive domains: the hosts that join them, and the instances that were there before."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.groups.definition import (
    AFFINITY,
    EXCLUSIVE,
    GroupPolicy,
)
from nova_sched.tests.builders import aggregate, uuid_of
from nova_sched.tests.unit.engine.groups.group_cloud import (
    SOURCE,
    cloud,
    definition,
    members,
)
from nova_sched.tests.unit.engine.world import end_claims


class TestExclusive:
    ALONE = GroupPolicy('alone', EXCLUSIVE, 'rack', ('db',))

    def test_outsiders_are_kept_out_until_it_ends(self, eight):
        group = eight.create(definition(members('db'), self.ALONE))
        rack = eight.rack(eight.places(group)['db'])
        closed = [f'h{2 * rack}', f'h{2 * rack + 1}']
        for host in closed:
            eight.refuse_outsider(host)
        eight.build(group, 'db')
        eight.refuse_outsider(closed[0])
        eight.groups.delete(group.uuid)
        eight.scheduler.call(end_claims, eight.scheduler.claim_service, uuid_of('db'))
        eight.refuse_outsider(closed[0])
        eight.groups.mend_domains()
        assert eight.place('outsider', force_hosts=closed[:1]) == closed[0]

    def test_a_plan_may_use_domains_that_have_just_lost_their_members(self, eight):
        """Without a wait for the next search."""
        every = GroupPolicy('alone', EXCLUSIVE, 'rack', ('db',))
        groups = [eight.create(definition(members('db'), every)) for _ in range(4)]
        with pytest.raises(errors.GroupRefused):
            eight.create(definition(members('db'), every))
        eight.build(groups[0], 'db')
        eight.scheduler.call(end_claims, eight.scheduler.claim_service, uuid_of('db'))
        eight.create(definition(members('db'), every))

    def test_a_domain_with_outsiders_is_not_for_it(self, eight):
        for number in range(0, 6, 2):
            eight.place(f'outsider {number}', force_hosts=[f'h{number}'])
        group = eight.create(definition(members('db'), self.ALONE))
        assert eight.rack(eight.places(group)['db']) == 3

    @pytest.mark.parametrize(
        'built', [pytest.param(True, id='built'), pytest.param(False, id='planned')]
    )
    def test_an_update_opens_and_closes_it(self, eight, built):
        group = eight.create(definition(members('db')))
        if built:
            eight.build(group, 'db')
        rack = eight.rack(eight.places(group)['db'])
        other = next(
            f'h{number}'
            for number in (2 * rack, 2 * rack + 1)
            if f'h{number}' != eight.places(group)['db']
        )
        eight.groups.update(group.uuid, definition(members('db'), self.ALONE), SOURCE)
        eight.refuse_outsider(other)
        eight.groups.update(group.uuid, definition(members('db')), SOURCE)
        assert eight.place('outsider', force_hosts=[other]) == other

    def test_a_host_that_joins_the_domain_is_closed_too(self, eight):
        group = eight.create(definition(members('db'), self.ALONE))
        rack = eight.rack(eight.places(group)['db'])
        eight.join(20, stats={'rack': f'r{rack}'})
        eight.refuse_outsider('h20')

    def test_a_host_that_an_aggregate_brings_is_closed_too(self, eight):
        """Until another one takes it out again."""
        group = eight.create(definition(members('db'), self.ALONE))
        rack = eight.rack(eight.places(group)['db'])
        eight.join(20)
        state_sync, call = eight.scheduler.state_sync, eight.scheduler.call
        call(state_sync.set_aggregates, [aggregate(1, ['h20'], rack=f'r{rack}')])
        eight.refuse_outsider('h20')
        call(state_sync.set_aggregate, 1, None)
        assert eight.place('outsider', force_hosts=['h20']) == 'h20'

    @pytest.mark.parametrize('by', ['report', 'aggregate'])
    def test_instances_that_were_there_are_named(self, eight, caplog, by):
        """Once by the scheduler, and to the owner of the group as long as they are there."""
        group = eight.create(definition(members('db'), self.ALONE))
        rack = f'r{eight.rack(eight.places(group)["db"])}'
        eight.join(20)
        eight.place('outsider', force_hosts=['h20'])
        assert eight.groups.show(group.uuid).warnings == ()
        for _ in range(2):
            if by == 'report':
                eight.join(20, stats={'rack': rack})
            else:
                call, state_sync = eight.scheduler.call, eight.scheduler.state_sync
                call(state_sync.set_aggregates, [aggregate(1, ['h20'], rack=rack)])
        (told,) = [
            one.getMessage()
            for one in caplog.records
            if 'instances outside the group' in one.getMessage()
        ]
        assert 'h20' in told
        assert f'rack {rack}' in told
        assert group.uuid in told
        assert uuid_of('outsider') in told
        (warning,) = eight.groups.show(group.uuid).warnings
        assert warning == (
            '1 host joined an exclusive domain of the group with instances from outside the group'
        )

    def test_a_sweep_finds_what_was_missed(self, eight):
        """As with another configuration of the topology, of which no report tells."""
        group = eight.create(definition(members('db'), self.ALONE))
        rack = eight.rack(eight.places(group)['db'])
        locator, eight.store.locator = eight.store.locator, None
        eight.join(20, stats={'rack': f'r{rack}'})
        eight.store.locator = locator
        assert eight.place('outsider', force_hosts=['h20']) == 'h20'
        eight.groups.mend_domains()
        eight.refuse_outsider('h20')

    def test_who_was_a_member_is_no_outsider(self, eight):
        both = dataclasses.replace(self.ALONE, a=('db', 'old'))
        group = eight.create(
            definition(members('db', 'old'), both, GroupPolicy('t', AFFINITY, 'rack', both.a))
        )
        for path in both.a:
            eight.confirm(eight.build(group, path)[0], path)
        assert (
            eight.groups.update(group.uuid, definition(members('db'), self.ALONE), SOURCE).moves
            == ()
        )

    def test_a_domain_that_is_renamed(self, eight):
        group = eight.create(definition(members('db'), self.ALONE))
        planned = eight.places(group)['db']
        for number in range(8):
            if eight.rack(f'h{number}') == eight.rack(planned):
                eight.join(number, stats={'rack': 'renamed'})
        assert eight.build(group, 'db')[0] == planned

    def test_another_scheduler_keeps_out_too(self, eight):
        with cloud(0, eight.store) as other:
            group = eight.create(definition(members('db'), self.ALONE))
            host = eight.places(group)['db']
            with pytest.raises(errors.NoValidHost):
                other.place('outsider', force_hosts=[host])
