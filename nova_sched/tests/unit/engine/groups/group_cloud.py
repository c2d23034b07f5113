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
"""A scheduler that runs, and placement groups on it."""

import contextlib
import dataclasses

import pytest

from nova_sched import errors
from nova_sched.groups.definition import (
    ANTI_AFFINITY,
    Definition,
    GroupPolicy,
    Member,
    MemberFlavor,
)
from nova_sched.groups.members import member_spec
from nova_sched.rpc import translate
from nova_sched.tests.builders import report, uuid_of
from nova_sched.tests.unit.engine.world import World

SMALL, BIG = MemberFlavor(2, 1024, 10, name='small'), MemberFlavor(8, 4096, 10, name='big')
SOURCE = {'template': 'text'}
WEBS = tuple(f'web/{number}' for number in range(4))
RACKS_APART = GroupPolicy('webs apart', ANTI_AFFINITY, 'rack', WEBS)


@dataclasses.dataclass
class Context:
    project_id: str = 'p'
    user_id: str = 'u'
    request_id: str | None = None


def members(*paths, flavor=SMALL, **more):
    return {path: Member(path, flavor, **more) for path in paths}


def definition(found, *policies):
    return Definition(members=found, policies=policies)


def webs(*policies, **more):
    return definition(members(*WEBS) | more, RACKS_APART, *policies)


class Cloud:
    """Hosts h0, h1, ...: two in each rack, four in each room, 8 vCPUs each; and a scheduler on
    them.

    Further schedulers share the store.
    """

    def __init__(self, count=8, store=None, **settings):
        self.world = World(store, **settings)
        self.scheduler = self.world.scheduler
        self.groups = self.scheduler.groups
        self.scheduler.start()
        for number in range(count):
            self.join(number)

    def join(self, number, **words):
        """A host reports."""
        stats = {'rack': f'r{number // 2}', 'room': f'm{number // 4}'}
        self.scheduler.report(report(f'h{number}', **{'vcpus': 8, 'stats': stats, **words}))

    @property
    def store(self):
        return self.world.store

    @property
    def cluster(self):
        """What the scheduler knows once its loop has ended what it is at: a caller has its answer
        before the host state has what the store made of it."""
        self.scheduler.call(lambda: None)
        return self.world.cluster

    def create(self, found, **words):
        return self.groups.create(found, SOURCE, **{'name': 'g', 'context': Context(), **words})

    def build(self, group, path, name=None, found=None, request_id=None, **changes):
        """Have a scheduler place a server that is this member; returns the chosen host and the
        alternates.

        ``changes`` are fields of the spec, ``hints`` more of its hints.
        """
        request = self.request(group, path, name, found, **changes)
        placed = self.scheduler.place(
            [request], alternates=True, context=Context(request_id=request_id)
        )
        return [one.host for one in placed[0]]

    def request(self, group, path, name=None, found=None, hints=None, flavor=SMALL, **changes):
        """What a conductor sends for a member, whose description is ``found``."""
        instance = uuid_of(name or path)
        found = found or Member(path, flavor)
        spec = member_spec.spec_of(found, 'p', 'u', instance)
        spec.scheduler_hints = {'top_group': [group.uuid], 'member': [path], **(hints or {})}
        for field, value in changes.items():
            setattr(spec, field, value)
        (request,) = translate.requests(spec, [instance])
        return request

    def place(self, name, flavor=SMALL, **changes):
        """Have a server placed that is no member of anything."""
        spec = member_spec.spec_of(Member(name, flavor), 'p', 'u', uuid_of(name))
        for field, value in changes.items():
            setattr(spec, field, value)
        ((chosen,),) = self.scheduler.place(
            translate.requests(spec, [uuid_of(name)]), context=Context()
        )
        return chosen.host

    def refuse_outsider(self, host):
        """The host is closed for a server of no group: an exclusive domain has it."""
        with pytest.raises(errors.NoValidHost, match='kept for another group'):
            self.place('stranger', force_hosts=[host])

    def confirm(self, host, *names):
        """A host's messages tell that it has these servers."""
        self.scheduler.call(
            self.scheduler.state_sync.instances_added, host, [uuid_of(name) for name in names]
        )

    def disable(self, host):
        self.scheduler.call(
            self.scheduler.state_sync.set_service, host, True, 'broken', False, 0.0
        )

    def places(self, group):
        """Where the members are: path -> host."""
        return {one.path: one.host for one in self.groups.show(group.uuid).members}

    def states(self, group):
        return {one.path: one.state for one in self.groups.show(group.uuid).members}

    def rack(self, host):
        return int(host[1:]) // 2

    def stop(self):
        self.scheduler.stop()


@contextlib.contextmanager
def cloud(*args, **words):
    made = Cloud(*args, **words)
    try:
        yield made
    finally:
        made.stop()
