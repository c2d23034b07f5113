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
"""Kinds of requests: which requests have one, what is judged again, and the same answers as a full
pass."""

import dataclasses
import gc
import random
import weakref

from nova_sched import errors
from nova_sched.claim import MEMORY_MB
from nova_sched.engine import kinds
from nova_sched.engine.catalog import Rules
from nova_sched.engine.decide import best, survivors, weigh
from nova_sched.engine.kinds import RequestKinds
from nova_sched.engine.place import Placer
from nova_sched.filters import Filter
from nova_sched.filters.compute import ComputeFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.filters.resource_capacity import ResourceCapacity
from nova_sched.state.facts import HostFacts
from nova_sched.state.request import RequestedDestination, ServerGroup
from nova_sched.tests.builders import NOW, claim, cluster, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.engine.twins import Twins
from nova_sched.weighers import Weigher
from nova_sched.weighers.cpu import CPUWeigher
from nova_sched.weighers.exit_time import ExitTimeWeigher
from nova_sched.weighers.ram import RAMWeigher


class Counted(Filter):
    """It counts the rows that it judged."""

    host_facts = HostFacts.AMOUNTS
    request_facts = ('memory_mb',)

    def __init__(self):
        self.judged = 0

    def mask(self, hosts, request):
        self.judged += len(hosts)
        return hosts.fits(MEMORY_MB, request.memory_mb)


WEIGHERS = RAMWeigher(), CPUWeigher()


def rules(*filters, weighers=WEIGHERS):
    return Rules((ResourceCapacity(),), filters, tuple(weighers))


def asked(**words):
    return request(**{'instance_uuid': uuid_of('new'), 'vcpus': 1, 'memory_mb': 512, **words})


def kinds_of(made, *filters, **words):
    return RequestKinds(rules(*filters, **words), made.hosts, fewest=0)


def found(known, wanted):
    """The kind of a request, after another instance has asked for it."""
    known.find(dataclasses.replace(wanted, instance_uuid=uuid_of('first')))
    return known.find(wanted)


def full(known, made, wanted):
    """What a full pass gives: steps, and rows, best first."""
    chain = Rules((), known._filters, known._weighers)
    candidates = survivors(chain, made.hosts, wanted)
    rows = candidates.rows()
    weights = weigh(chain.weighers, made.hosts, rows, wanted)
    return candidates.steps, rows[best(weights, len(rows))].tolist(), sorted(weights.tolist())


def kept(kind):
    rows, weights = kind.weights.top(len(kind._hosts))
    return kind.steps, rows[best(weights, len(rows))].tolist(), sorted(weights.tolist())


def test_kinds_and_full_passes_decide_alike():
    twins = [Twins(seed) for seed in range(12)]
    for one in twins:
        one.run(60)
    assert sum(one.decisions for one in twins) == 720
    assert sum(one.kept for one in twins) > 180, 'many decisions are made by kinds'


def test_weights_of_each_request_are_not_kept():
    """Requests with different ends are of one kind, which weighs their ends anew."""
    made = cluster(200, vcpus=64)
    for row in range(0, 200, 3):
        server = asked(instance_uuid=uuid_of(f'{row}'), hints={'ttl': [60.0 * (row + 1)]})
        made.consume(made.hosts.nodes[row], server)
    with settings({'filter_scheduler.exit_time_weight_multiplier': 2.0}):
        known = kinds_of(made, weighers=(RAMWeigher(), ExitTimeWeigher()))
        for minutes in (10, 100, 1, None, 50):
            hints = {} if minutes is None else {'ttl': [60.0 * minutes]}
            wanted = asked(hints=hints)
            assert kept(found(known, wanted)) == full(known, made, wanted)
            made.hosts.now_s += 30.0
        assert len(known) == 1


def test_a_kind_is_made_when_another_instance_asks_for_it():
    made = cluster(3)
    known = kinds_of(made)
    assert known.find(asked()) is None
    assert known.find(asked()) is None  # a retry
    assert not len(known)
    assert known.find(asked(instance_uuid=uuid_of('another'))) is not None
    assert len(known) == 1


def test_few_hosts_have_full_passes():
    made = cluster(3)
    assert found(RequestKinds(rules(), made.hosts), asked()) is None
    assert found(RequestKinds(rules(), made.hosts, fewest=3), asked()) is not None
    assert found(RequestKinds(rules(), made.hosts, fewest=4), asked()) is None


@table(
    'words',
    {
        'a server group': {'group': ServerGroup(uuid_of('g'), 'affinity')},
        'a destination': {'destination': RequestedDestination('host-0')},
        'hosts to ignore': {'ignore_hosts': frozenset(['host-0'])},
        'a forced host': {'force_hosts': frozenset(['host-0'])},
        'a forced node': {'force_nodes': frozenset(['host-0'])},
        'a rebuild check': {'hints': {'_nova_check_type': ['rebuild']}},
    },
)
def test_a_request_for_certain_hosts_has_no_kind(words):
    wanted = dataclasses.replace(asked(), **words)
    assert found(kinds_of(cluster(3)), wanted) is None


def test_an_instance_that_is_somewhere_has_no_kind():
    made = cluster(3)
    made.add(claim(uuid_of('new'), uuid_of('node host-1')))
    assert found(kinds_of(made), asked()) is None


def test_a_rule_that_does_not_say_what_it_reads_has_full_passes():
    class ReadsHosts(Filter):
        request_facts = ()

        def mask(self, hosts, request):
            return True

    class ReadsRequest(Weigher):
        def raw(self, hosts, rows, request):
            return None

    made = cluster(3)
    assert found(kinds_of(made, ReadsHosts()), asked()) is None
    assert found(kinds_of(made, weighers=[ReadsRequest()]), asked()) is None


def test_more_filters_than_bits_have_full_passes():
    assert found(kinds_of(cluster(3), *[RamFilter()] * 63), asked()) is None


def test_only_changed_rows_are_judged_again():
    made, rule = cluster(200), Counted()
    known = kinds_of(made, rule)
    found(known, asked())
    before = rule.judged
    made.add(claim(uuid_of('a'), uuid_of('node host-7')))
    made.add(claim(uuid_of('b'), uuid_of('node host-7')))
    made.add(claim(uuid_of('c'), uuid_of('node host-9')))
    known.find(asked())
    assert rule.judged == before + 2
    known.find(asked())
    assert rule.judged == before + 2


def test_only_rules_that_read_the_changed_facts_judge_again():
    made, rule = cluster(200), Counted()
    known = kinds_of(made, rule)
    found(known, asked())
    before = rule.judged
    made.set_service('host-3', True, None, False)
    known.find(asked())
    assert rule.judged == before


def test_a_host_falls_silent_when_its_time_has_come():
    made = cluster(3, seen_s=[NOW, NOW - 30, NOW - 59])
    known = kinds_of(made, ComputeFilter())
    assert found(known, asked()).left == 3
    for step_s, left in ((0.5, 3), (1, 2), (28, 2), (1, 1), (29.4, 1), (0.2, 0)):
        made.hosts.now_s += step_s
        assert known.find(asked()).left == left
        assert kept(known.find(asked())) == full(known, made, asked())


def test_a_clock_that_steps_back_is_followed():
    made = cluster(2, seen_s=[NOW, NOW - 59])
    known = kinds_of(made, ComputeFilter())
    found(known, asked())
    made.hosts.now_s += 10
    assert known.find(asked()).left == 1
    made.hosts.now_s -= 10
    assert known.find(asked()).left == 2


def test_new_rules_have_kinds_of_their_own():
    placer = Placer(cluster(3), rules(), random.Random(0))
    placer.kinds.fewest = 0
    found(placer.kinds, asked())
    before = placer.kinds
    placer.follow(placer.rules)
    assert placer.kinds is not before
    assert not len(placer.kinds)


@each('error', [errors.BadConfig('option', 'wrong'), ValueError('a defect')])
def test_a_rule_that_fails_leaves_it_to_a_full_pass(error):
    class Fails(Filter):
        host_facts, request_facts = HostFacts.AMOUNTS, ()
        failing = True

        def mask(self, hosts, request):
            if self.failing:
                raise error
            return True

    made, rule = cluster(3), Fails()
    known = kinds_of(made, rule)
    assert found(known, asked()) is None
    rule.failing = False
    assert found(known, asked()) is not None
    rule.failing = True
    made.add(claim('x', uuid_of('node host-1')))
    assert known.find(asked()) is None
    assert not len(known)


def test_a_weigher_of_a_new_version_weighs_all_rows_again():
    class Versioned(RAMWeigher):
        minval = None

        def raw(self, hosts, rows, request):
            return super().raw(hosts, rows, request) * (-1 if self.version else 1)

    weigher, made = Versioned(), cluster(3, memory_mb=[2048, 4096, 1024])
    known = kinds_of(made, weighers=[weigher])
    assert kept(found(known, asked()))[1] == [1, 0, 2]
    weigher.version += 1
    assert kept(found(known, asked()))[1] == [2, 0, 1]


def test_the_kind_used_last_is_dropped_last():
    made = cluster(100)
    small = found(kinds_of(made), asked()).bytes
    known = RequestKinds(rules(), made.hosts, memory=2 * small, fewest=0)
    first, second = asked(), asked(memory_mb=1024)
    found(known, first), found(known, second)
    known.find(first)
    found(known, asked(memory_mb=2048))
    assert len(known) == 2
    assert known.find(first) is not None
    assert known.find(second) is None


def test_a_dropped_kind_frees_its_memory():
    known = RequestKinds(rules(), cluster(3).hosts, memory=1, fewest=0)
    kind = weakref.ref(found(known, asked()))
    gc.disable()
    try:
        found(known, asked(memory_mb=1024))
        assert kind() is None
    finally:
        gc.enable()


def test_kinds_asked_for_once_are_forgotten(monkeypatch):
    monkeypatch.setattr(kinds, 'MAX_WAITING', 2)
    known = kinds_of(cluster(3))
    for size in (1, 2, 3, 1):
        assert known.find(asked(memory_mb=size)) is None
