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
"""Whole lives of servers: scheduler and agents on a bus, and what claims there are after each
event."""

import time
import uuid

import pytest

from nova_sched import errors, objects
from nova_sched.claim import VCPU
from nova_sched.rpc.agent import AgentClient
from nova_sched.rpc.client import ExplainClient
from nova_sched.tests.functional.test_agent import asked, cloud, conf, until

__all__ = ['cloud', 'conf']

CPUS = 8  # of each host
SOME_REPORTS_S = 2.5


class Life:
    """One server of two CPUs on the first of two hosts, and those who act on it."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.agents = {'a': cloud.agent('a')}
        until(cloud.takes)
        self.server, _ = cloud.boot(asked(vcpus=2))
        self.agents['b'] = cloud.agent('b')
        until(lambda: len(cloud.ranking()) == 2)
        self.is_so({'a': ('confirmed', None, 2)}, a=2)

    def host(self, name):
        return AgentClient(self.cloud.bus, name)

    def held(self):
        """host -> state, move, CPUs of each claim of the server."""
        return {one.host: (one.state, one.move, one.resources[VCPU])
                for one in self.cloud.claims.show(self.server)}  # fmt: skip

    def used(self, host):
        """CPUs of the host that no instance could have now."""
        one = asked(vcpus=1)
        one.force_hosts = [host]
        return CPUS - ExplainClient(self.cloud.bus).capacity(one)['total']

    def is_so(self, held, a=0, b=0):
        """Soon there are these claims, and so many CPUs are in use on the hosts."""
        cpus = {'a': a, 'b': b}
        until(
            lambda: (
                self.held() == held and all(self.used(host) == cpus[host] for host in self.agents)
            )
        )

    def stays_so(self, held, a=0, b=0):
        """And so it is after some reports."""
        self.is_so(held, a, b)
        time.sleep(SOME_REPORTS_S)
        assert (self.held(), self.used('a'), self.used('b')) == (held, a, b)

    def move(self, vcpus, method, move='resize', away=True):
        """Have the conductor move it; returns the host where it is then."""
        size = asked(vcpus=vcpus)
        size.ignore_hosts = ['a'] if away else ['b']

        def start(server, selection):
            getattr(self.host(selection.service_host), method)(size, server)

        return self.cloud.conductor.move(size, self.server, start, move).service_host


@pytest.fixture
def life(cloud, conf):
    conf.set_override('store', 'sql', group='claims')
    cloud.scheduler()
    return Life(cloud)


RUNNING = {'a': ('confirmed', None, 2)}
BOTH = {**RUNNING, 'b': ('confirmed', 'resize', 4)}


def test_a_resize_that_is_confirmed(life):
    assert life.move(4, 'resize') == 'b'
    life.is_so(BOTH, a=2, b=4)
    life.host('a').destroy(life.server)
    life.stays_so(BOTH, a=2, b=4)  # it may have to come back
    life.cloud.claims.confirm_claim(life.server, 'b')
    life.host('b').confirm_resize(life.server)
    life.is_so({'b': ('confirmed', None, 4)}, b=4)
    life.host('b').destroy(life.server)
    life.stays_so({})


@pytest.mark.parametrize(
    'left', [False, True], ids=['the source has it still', 'the source has it again']
)
def test_a_resize_that_is_taken_back(life, left):
    life.move(4, 'resize')
    life.is_so(BOTH, a=2, b=4)
    if left:
        life.host('a').destroy(life.server)
        life.stays_so(BOTH, a=2, b=4)
        life.host('a').build(asked(vcpus=2), life.server)
    life.cloud.claims.revert_claim(life.server)
    life.host('b').revert_resize(life.server)
    life.stays_so(RUNNING, a=2)


def test_a_resize_that_is_taken_back_on_its_host_first(life):
    """The report that does not list it any more ends the claim: there is nothing to take back
    then."""
    life.move(4, 'resize')
    life.is_so(BOTH, a=2, b=4)
    life.host('b').revert_resize(life.server)
    life.is_so(RUNNING, a=2)
    with pytest.raises(errors.ClaimNotFound):
        life.cloud.claims.revert_claim(life.server)
    life.stays_so(RUNNING, a=2)


@pytest.mark.parametrize('settle, left', [('confirm', 5), ('revert', 2)])
@pytest.mark.parametrize('first', ['claims', 'host'])
def test_a_resize_in_place(life, settle, left, first):
    assert life.move(5, 'resize', away=False) == 'a'
    life.is_so({'a': ('confirmed', None, 5)}, a=5)
    steps = [
        lambda: (
            life.cloud.claims.confirm_claim(life.server, 'a')
            if settle == 'confirm'
            else life.cloud.claims.revert_claim(life.server)
        ),
        lambda: getattr(life.host('a'), f'{settle}_resize')(life.server),
    ]
    for step in steps if first == 'claims' else reversed(steps):
        step()
    life.stays_so({'a': ('confirmed', None, left)}, a=left)


def test_a_server_that_is_deleted_while_it_moves(life):
    life.move(4, 'resize')
    life.is_so(BOTH, a=2, b=4)
    for host in ('b', 'a'):
        life.host(host).destroy(life.server)
    life.stays_so(RUNNING, a=2)  # it may be on its way back
    claims = life.cloud.claims
    (there,) = claims.show(life.server)
    claims.abort_claim(life.server, 'a', claim=there.name, confirmed=True)
    life.stays_so({})


def test_a_live_migration_is_settled_by_reports(life):
    assert life.move(2, 'build', 'live-migration') == 'b'
    there = 'confirmed', 'live-migration', 2
    life.is_so({**RUNNING, 'b': there}, a=2, b=2)
    life.host('a').destroy(life.server)
    life.is_so({'b': there}, b=2)
    life.cloud.claims.confirm_claim(life.server, 'b')
    life.stays_so({'b': ('confirmed', None, 2)}, b=2)


def test_an_evacuation_from_a_host_that_comes_back(life):
    """It still has the server then, until the server is removed."""
    life.cloud.stop(life.agents['a'])
    assert life.move(2, 'build', 'evacuation') == 'b'
    there = {'b': ('confirmed', 'evacuation', 2)}
    life.is_so({**RUNNING, **there}, a=2, b=2)
    life.agents['a'] = life.cloud.agent('a')
    life.stays_so({**RUNNING, **there}, a=2, b=2)
    life.host('a').destroy(life.server)
    life.stays_so(there, b=2)


def test_an_evacuation_that_was_confirmed_before_the_host_comes_back(life):
    """What it still has is no claim any more, but it is in use until it is taken away."""
    life.cloud.stop(life.agents['a'])
    life.move(2, 'build', 'evacuation')
    life.cloud.claims.confirm_claim(life.server, 'b')
    there = {'b': ('confirmed', None, 2)}
    life.is_so(there, b=2)
    life.agents['a'] = life.cloud.agent('a')
    life.is_so(there, a=2, b=2)
    life.host('a').destroy(life.server)
    life.stays_so(there, b=2)


def test_shelve_and_unshelve(life):
    life.host('a').destroy(life.server)
    life.is_so({})

    def build(server, selection):
        life.host(selection.service_host).build(asked(vcpus=2), server)

    ((where),) = life.cloud.conductor.boot(asked(vcpus=2), [life.server], build)
    at = where.service_host
    life.stays_so({at: ('confirmed', None, 2)}, **{at: 2})


@pytest.mark.parametrize(
    'architecture, refusal',
    [
        pytest.param('x86_64', None, id='an image that runs there'),
        pytest.param(
            'aarch64', 'ImagePropertiesFilter removed the last hosts: they', id='one that does not'
        ),
    ],
)
def test_a_rebuild_claims_nothing_and_checks_the_image(life, architecture, refusal):
    (before,) = life.cloud.claims.show(life.server)
    rebuilt = asked(vcpus=2)
    rebuilt.image = objects.ImageMeta(
        id=str(uuid.uuid4()), properties=objects.ImageMetaProps(hw_architecture=architecture)
    )
    rebuilt.scheduler_hints = {'_nova_check_type': ['rebuild']}
    rebuilt.force_hosts, rebuilt.force_nodes = ['a'], ['a']
    ask = life.cloud.conductor.scheduler.select_destinations
    if refusal:
        with pytest.raises(errors.NoValidHost, match=refusal):
            ask(rebuilt, [life.server])
    else:
        ((found,),) = ask(rebuilt, [life.server])
        assert found.service_host == 'a'
        life.host('a').build(rebuilt, life.server)
    life.stays_so(RUNNING, a=2)
    (after,) = life.cloud.claims.show(life.server)
    assert after.uuid == before.uuid


def test_two_servers_that_change_places(life):
    """Each of them holds both hosts until it is settled, and neither is counted twice then."""
    other = str(uuid.uuid4())
    life.cloud.claims.instance_claim(asked(vcpus=3), other, 'b', 'b')
    life.host('b').build(asked(vcpus=3), other)
    until(lambda: life.cloud.states(other) == [('b', 'confirmed')])
    life.is_so(RUNNING, a=2, b=3)
    life.cloud.claims.resize_claim(asked(vcpus=3), other, 'a', 'a', 'migration')
    life.move(2, 'resize', 'migration')
    life.host('a').resize(asked(vcpus=3), other)
    life.is_so({**RUNNING, 'b': ('confirmed', 'migration', 2)}, a=5, b=5)
    for server, source, target in ((life.server, 'a', 'b'), (other, 'b', 'a')):
        life.host(source).destroy(server)
        life.host(target).confirm_resize(server)
        life.cloud.claims.confirm_claim(server, target)
    life.stays_so({'b': ('confirmed', None, 2)}, a=3, b=2)
    assert life.cloud.states(other) == [('a', 'confirmed')]
