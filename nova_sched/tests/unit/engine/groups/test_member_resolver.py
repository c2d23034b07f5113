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
"""Members that are built: as planned, and otherwise."""

import dataclasses
import threading

import pytest

from nova_sched import errors
from nova_sched.claim import PENDING, PLANNED
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.engine.scheduler import CALL
from nova_sched.groups.definition import (
    MemberFlavor,
)
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.engine.groups.group_cloud import (
    WEBS,
    webs,
)
from nova_sched.tests.unit.engine.world import end_claims, fresh, picture


class TestBuild:
    def test_each_member_goes_where_it_was_planned(self, eight):
        group = eight.create(webs())
        planned = eight.places(group)
        built = {path: eight.build(group, path) for path in WEBS}
        assert {path: hosts[0] for path, hosts in built.items()} == planned
        # Alternates keep the policy: of a rack with two hosts only the other one is left.
        assert all({eight.rack(host) for host in hosts} == {eight.rack(planned[path])}
                   for path, hosts in built.items())  # fmt: skip
        assert eight.groups.show(group.uuid).status == 'building'
        assert len(eight.store.claims()) == 4
        for path, host in planned.items():
            eight.confirm(host, path)
        assert eight.groups.show(group.uuid).status == 'built'

    def test_twice_is_once(self, eight):
        group = eight.create(webs())
        first = eight.build(group, 'web/0', request_id='req-1')
        assert eight.build(group, 'web/0', request_id='req-1')[0] == first[0]
        assert len(eight.store.claims()) == 4

    @pytest.mark.parametrize(
        'path, changes, why',
        [
            pytest.param('web/9', {}, 'has no such member', id='no such member'),
            pytest.param('', {}, 'has no such member', id='no name'),
            pytest.param(
                'web/0',
                {'flavor': MemberFlavor(4, 1024, 10, name='small')},
                'flavor.vcpus was planned to be 2, but 4 is asked for',
                id='another flavor',
            ),
            pytest.param(
                'web/0', {'project_id': 'q'}, 'There is no placement group', id='another project'
            ),
        ],
    )
    def test_what_was_not_planned(self, eight, path, changes, why):
        group = eight.create(webs())
        with pytest.raises(errors.MemberRefused, match=why):
            eight.build(group, path, 'server', **changes)
        assert eight.states(group) == dict.fromkeys(WEBS, PLANNED)

    def test_a_group_of_no_project_is_for_all(self, eight):
        group = eight.create(webs(), context=None)
        assert eight.build(group, 'web/0', project_id='q')[0] == eight.places(group)['web/0']

    def test_no_such_group(self, eight):
        group = dataclasses.replace(eight.create(webs(), dry_run=True))
        with pytest.raises(errors.MemberRefused, match='There is no placement group'):
            eight.build(group, 'web/0')

    def test_a_member_is_one_server(self, eight):
        group = eight.create(webs())
        host = eight.build(group, 'web/0')[0]
        eight.confirm(host, 'web/0')
        with pytest.raises(
            errors.MemberRefused, match=f'it is instance {uuid_of("web/0")} already'
        ):
            eight.build(group, 'web/0', 'another')

    def test_a_server_that_replaces_one_that_is_there(self, eight):
        """Both are there for a while; the policies count the new one."""
        group = eight.create(webs())
        for path in WEBS:
            eight.confirm(eight.build(group, path)[0], path)
        eight.world.now_s += 1
        new = eight.build(group, 'web/0', 'next', hints={'replace': ['true']})[0]
        assert len(eight.store.claims()) == 5
        eight.confirm(new, 'next')
        assert eight.places(group)['web/0'] == new
        eight.scheduler.call(end_claims, eight.scheduler.claim_service, uuid_of('web/0'))
        assert len({eight.rack(host) for host in eight.places(group).values()}) == 4

    def test_a_second_server_does_not_take_the_room_of_one_that_is_being_built(self, eight):
        group = eight.create(webs())
        first = eight.build(group, 'web/0', 'first')[0]
        with pytest.raises(
            errors.MemberRefused, match=f'it is instance {uuid_of("first")} already'
        ):
            eight.build(group, 'web/0', 'second')
        assert eight.store.claims(uuid_of('second')) == []
        assert [claim.state for claim in eight.store.claims(uuid_of('first'))] == [PENDING]
        eight.confirm(first, 'first')
        assert eight.places(group)['web/0'] == first

    def test_a_server_that_replaces_one_that_is_being_built(self, eight):
        """Either may still come to be: both hold their room until one of them goes."""
        group = eight.create(webs())
        eight.build(group, 'web/0', 'first')
        second = eight.build(group, 'web/0', 'second', hints={'replace': ['true']})[0]
        assert [claim.state for claim in eight.store.claims(uuid_of('first'))] == [PENDING]
        eight.scheduler.call(end_claims, eight.scheduler.claim_service, uuid_of('first'))
        assert (len(eight.store.claims()), eight.places(group)['web/0']) == (4, second)

    def test_another_flavor_if_the_caller_says_so(self, eight):
        group = eight.create(webs())
        eight.build(
            group,
            'web/0',
            flavor=MemberFlavor(4, 1024, 10, name='small'),
            hints={'replan': ['true']},
        )
        (claim,) = eight.store.claims(uuid_of('web/0'))
        assert (claim.resources['VCPU'], claim.member) == (4, 'web/0')
        assert len({eight.rack(host) for host in eight.places(group).values()}) == 4

    def test_members_that_are_built_in_one_batch(self, eight):
        group = eight.create(webs())
        begin = threading.Event()
        waiting = eight.scheduler.loop.send(CALL, (begin.wait, ()))
        asked = [
            eight.scheduler.loop.send(PLACE, Order([eight.request(group, path)])) for path in WEBS
        ]
        begin.set()
        assert waiting.result()
        assert all(future.result() for future in asked)
        assert picture(eight.cluster) == picture(fresh(eight.store))

    def test_several_servers_cannot_be_one_member(self, eight):
        group = eight.create(webs())
        two = [eight.request(group, 'web/0', name) for name in ('one', 'two')]
        with pytest.raises(errors.MemberRefused, match='cannot be one member'):
            eight.scheduler.place(two)
        assert set(eight.states(group).values()) == {PLANNED}

    def test_a_question_replans_no_member(self, eight):
        group = eight.create(webs())
        eight.disable(eight.places(group)['web/0'])
        with pytest.raises(errors.MemberRefused, match='replanned'):
            eight.scheduler.place([eight.request(group, 'web/0')], claim=False)
        assert eight.groups.show(group.uuid).serial == group.serial
