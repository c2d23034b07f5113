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
"""An agent that builds for a job, and a real scheduler: an instance counts once, whatever comes
when."""

import pytest

from nova_sched import errors
from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.rpc import translate
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import spec
from nova_sched.tests.unit.extensions.agent.builders import CLAIM, agent_of
from nova_sched.tests.unit.extensions.agent.fake_machine import two_cells

ONE = uuid_of('one')
SIZE = {VCPU: 2, MEMORY_MB: 64, DISK_GB: 1}
ASKED = spec(vcpus=2, memory_mb=64, root_gb=1)


class Worker:
    """One compute node: its agent, whose reports go when the test says so, and what a worker does
    with it."""

    def __init__(self, daemon, root, host):
        self.agent = agent_of(root, two_cells(root), host=host, cpu_allocation_ratio=1.0)
        self._daemon, self._host, self.told = daemon, host, None
        self.report()

    def report(self, facts=None):
        """Send what was read, or read now; the scheduler's answer."""
        seen = self.told['generation'] if self.told else 0
        facts = facts or self.agent.read()
        listed, node = sorted(facts.instances), facts.node
        self.told = self._daemon.stats.update_resource_stats(
            node.host, node, listed, facts.inventories, seen=seen
        )
        return self.told

    def begin(self, move=None):
        """Take the instance here, then claim for it."""
        (request,) = translate.requests(ASKED, [ONE])
        self.agent.begin(request, move)
        if move:
            self._daemon.claims.resize_claim(ASKED, ONE, self._host, self._host, move)
        else:
            self._daemon.claims.instance_claim(ASKED, ONE, self._host, self._host, new=True)

    def confirm(self):
        return self._daemon.claims.confirm_claim(ONE, self._host)

    def counts(self):
        """What the scheduler counts on the node, by its last answer: usage, and its unclaimed
        part."""
        used = {name: amount for name, amount in self.told['counted']['used'].items() if amount}
        return used, self.told['foreign'], self.told['claims']


@pytest.fixture
def make(daemon, tmp_path):
    return lambda host: Worker(daemon, tmp_path / host, host)


@pytest.fixture
def worker(make):
    return make('a')


def once(state):
    return SIZE, {}, {ONE: state}


NOTHING = {}, {}, {}


def test_it_is_counted_once_at_each_step(worker):
    worker.begin()
    worker.report()
    assert worker.counts() == once('pending'), 'no report confirms what is being built'
    worker.agent.built(ONE, CLAIM)
    worker.confirm()
    worker.agent.keep(ONE)
    for _ in range(3):
        worker.report()
        assert worker.counts() == once('confirmed')
    assert worker.agent.read().instances == {ONE}


def test_it_is_counted_once_if_it_is_kept_before_it_is_confirmed(worker):
    worker.begin()
    worker.agent.keep(ONE)
    worker.confirm()
    for _ in range(3):
        worker.report()
        assert worker.counts() == once('confirmed')


@pytest.mark.parametrize('steps', [['confirm', 'keep'], ['keep', 'confirm']], ids=' '.join)
def test_a_report_from_before_comes_late(worker, steps):
    """It lists nothing, and the claim is confirmed by then."""
    worker.begin()
    before = worker.agent.read()
    for step in steps:
        worker.confirm() if step == 'confirm' else worker.agent.keep(ONE)
    worker.report(before)
    assert worker.counts() == once('confirmed')
    for _ in range(3):
        worker.report()
        assert worker.counts() == once('confirmed')


def test_another_report_goes_before_it_is_kept(worker):
    """Without the word that it is built, that would be the second without it: its claim would
    end."""
    worker.begin()
    before = worker.agent.read()
    worker.agent.built(ONE, CLAIM)
    worker.confirm()
    worker.report(before)
    worker.report()
    assert worker.counts() == once('confirmed')
    worker.agent.keep(ONE)
    worker.report()
    assert worker.counts() == once('confirmed')


def test_a_report_confirms_what_is_built(worker):
    worker.begin()
    worker.agent.built(ONE, CLAIM)
    worker.report()
    worker.report()  # its node had not heard of the claim before
    assert worker.counts() == once('confirmed')
    (claim,) = worker.confirm()
    assert claim.state == 'confirmed'


def test_who_was_replaced_undoes_it(worker, make):
    """What it has built is in use there until then, as unclaimed usage."""
    later = make('b')
    worker.begin()
    later.begin()
    worker.agent.built(ONE, CLAIM)
    worker.report()
    assert worker.counts() == (SIZE, SIZE, {})
    with pytest.raises(errors.ClaimNotFound):
        worker.confirm()
    assert worker.agent.undo(ONE)
    worker.report()
    assert worker.counts() == NOTHING
    later.agent.built(ONE, CLAIM)
    later.confirm()
    later.agent.keep(ONE)
    later.report()
    assert later.counts() == once('confirmed')
    with pytest.raises(errors.AlreadyPlaced):
        worker.begin()
    assert worker.agent.undo(ONE)
    worker.report()
    assert worker.counts() == NOTHING


def test_one_that_failed_leaves_nothing(worker, daemon):
    worker.begin()
    worker.agent.undo(ONE, failed=True)
    daemon.claims.abort_claim(ONE, 'a')
    worker.report()
    assert worker.counts() == NOTHING


def test_one_that_goes_before_any_report_leaves_nothing(worker):
    worker.begin()
    worker.agent.built(ONE, CLAIM)
    worker.confirm()
    worker.agent.keep(ONE)
    worker.agent.destroy(ONE)
    worker.report()
    assert worker.counts() == once('confirmed'), 'it is told of once'
    worker.report()
    assert worker.counts() == NOTHING


@pytest.mark.parametrize('move', ['resize', 'migration'])
def test_one_that_comes_from_another_host(worker, make, daemon, move):
    worker.begin()
    worker.confirm()
    worker.agent.keep(ONE)
    worker.report()
    there = make('b')
    there.begin(move)
    before = there.agent.read()
    there.report()
    assert (worker.counts(), there.counts()) == (once('confirmed'), once('pending'))
    there.agent.built(ONE, CLAIM)
    there.confirm()
    assert daemon.hosts_of('one') == {'b': 'confirmed'}
    there.report(before)
    there.agent.keep(ONE)
    worker.agent.destroy(ONE)
    for one in (worker, there):
        one.report()
    assert (worker.counts(), there.counts()) == (NOTHING, once('confirmed'))
