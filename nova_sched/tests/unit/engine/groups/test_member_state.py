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

from nova_sched.claims import GroupRecord
from nova_sched.engine.groups.member_state import Library, LoadedGroup, read
from nova_sched.groups.definition import Member, MemberFlavor
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.engine.groups.group_cloud import cloud, definition


def test_a_look_reads_nothing():
    """The loop looks alone: the thread of the caller reads, which may take long."""
    with cloud(1) as made:
        group = made.create(definition({'a': Member('a', MemberFlavor(1, 64))}))
        uuid, library = getattr(group, 'uuid', group), Library(made.store)
        found = library.look(uuid)
        assert isinstance(found, GroupRecord)
        assert list(read(found).requests) == ['a']
        library.keep(read(found))
        assert isinstance(library.look(uuid), LoadedGroup)
        assert library.find(uuid) == library.look(uuid)


def test_members_of_one_kind_share_a_request():
    one, other = (MemberFlavor(1, 64), MemberFlavor(1, 64))
    of_one = {path: Member(path, one) for path in ('a', 'b')}
    every = {**of_one, 'c': Member('c', other), 'd': Member('d', MemberFlavor(2, 64))}
    known = LoadedGroup.of(GroupRecord(uuid=uuid_of('group')), definition(every), {})
    assert len(set(known.consumers.values())) == 4
    assert known.kinds['a'] == known.kinds['b'] == known.kinds['c'] != known.kinds['d']
    assert known.requests['a'] is known.requests['c']
    assert known.requests['a'].instance_uuid not in known.consumers.values()
