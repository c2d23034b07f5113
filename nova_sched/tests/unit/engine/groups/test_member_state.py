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
"""What is kept of placement groups that were read."""

import dataclasses
import json
import threading
import types

import pytest

from nova_sched import errors
from nova_sched.claims import GroupRecord
from nova_sched.engine.groups.member_state import Library, LoadedGroup, read
from nova_sched.groups.definition import Member, MemberFlavor
from nova_sched.groups.members import member_spec
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.engine.groups.group_cloud import cloud, definition, members


def test_a_look_reads_nothing():
    """The loop looks alone: the thread of the caller reads, which may take long."""
    with cloud(1) as made:
        group = made.create(definition({'a': Member('a', MemberFlavor(1, 64))}))
        uuid, library = getattr(group, 'uuid', group), Library(made.store)
        found = library.peek(uuid)
        assert isinstance(found, GroupRecord)
        assert list(read(found).definition.members) == ['a']
        library.keep(read(found))
        assert isinstance(library.peek(uuid), LoadedGroup)
        assert library.find(uuid) == library.peek(uuid)


def test_members_of_one_kind_share_a_request():
    one, other = (MemberFlavor(1, 64), MemberFlavor(1, 64))
    of_one = {path: Member(path, one) for path in ('a', 'b')}
    every = {**of_one, 'c': Member('c', other), 'd': Member('d', MemberFlavor(2, 64))}
    known = LoadedGroup.of(GroupRecord(uuid=uuid_of('group')), definition(every), {})
    assert len(set(known.consumers.values())) == 4
    requests = known.requests()
    kinds = requests.kinds
    assert kinds['a'] == kinds['b'] == kinds['c'] != kinds['d']
    assert sorted(requests.of_kind) == sorted({kinds['a'], kinds['d']})
    assert requests.of_kind[kinds['a']].instance_uuid not in known.consumers.values()
    assert known.requests() is requests


def test_the_loop_makes_no_request_of_a_member(monkeypatch):
    """A thousand kinds of members take most of a second, in which the loop would serve nobody."""
    made_in = set()

    def spec_of(*args, **words):
        made_in.add(threading.get_ident())
        return member_spec.spec_of(*args, **words)

    monkeypatch.setattr(
        'nova_sched.engine.groups.member_state.member_spec', types.SimpleNamespace(spec_of=spec_of)
    )
    flavors = {f'm{number}': MemberFlavor(1, 64 + number) for number in range(4)}
    every = {path: Member(path, flavor) for path, flavor in flavors.items()}
    with cloud(4) as made:
        loop, wrong = made.scheduler.call(threading.get_ident), []
        group = made.create(definition(every))

        def build(path, **hints):
            return made.build(group, path, found=every[path], hints=hints)

        for name, call in {
            'build': lambda: build('m0'),
            'show': lambda: made.groups.show(group.uuid),
            'renew': lambda: made.groups.renew(group.uuid, 60),
            'replan': lambda: made.groups.plan(group.uuid, replan=True),
            'replan for a build': lambda: build('m1', replan=['true']),
            'update': lambda: made.groups.update(group.uuid, definition(every), {}),
            'mend domains': lambda: made.groups.mend_domains(),
            'delete': lambda: made.groups.delete(group.uuid),
        }.items():
            made.groups._library._read.clear()
            made_in.clear()
            call()
            wrong += [name] if loop in made_in else []
        assert wrong == []


def test_a_stored_member_that_is_refused_now_costs_its_group_a_new_plan_alone():
    """An earlier release stored it, or the configuration of PCI aliases has changed."""
    with cloud(2) as made:
        group = made.create(definition(members('a', 'b')))
        record = made.store.top_group(group.uuid)
        plain = json.loads(record.definition)
        plain['definition']['members']['b']['hints'] = {'_nova_check_type': ['rebuild']}
        known = read(dataclasses.replace(record, definition=json.dumps(plain)))
        made.scheduler.call(made.groups._library.keep, known)
        assert made.states(group) == {'a': 'planned', 'b': 'planned'}
        assert made.build(group, 'a')
        with pytest.raises(errors.InvalidRequest, match='member b, scheduler_hints'):
            made.groups.plan(group.uuid, replan=True)
        made.groups.delete(group.uuid)
