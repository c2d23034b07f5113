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
"""What the batteries have in common: short steps on a store, and looks at what it keeps."""

from nova_sched.claim import CONFIRMED, RESIZE, VCPU
from nova_sched.claims import Placement
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import NOW, claim, report, uuid_of

A, B, C = (uuid_of(f'instance {letter}') for letter in 'ABC')
HOST, OTHER, THIRD = 'host-0', 'host-1', 'host-2'
DAY = 86400.0


def node(host=HOST):
    return uuid_of(f'node {host}')


def seen(store, host=HOST):
    """The ReportOrder of a report whose sender knows all that the store does of its node."""
    return ReportOrder(seen=store.heads().get(node(host), (0,))[0])


def ready(store, *hosts, now_s=NOW, **words):
    """Let hosts report, HOST if none is named, by what they know by now; the facts of each."""
    return store.report(
        [report(host, **{'order': seen(store, host), **words}) for host in hosts or (HOST,)], now_s
    )


def place(store, *claims, releases=()):
    """Commit one placement; its outcome."""
    consumers = {claim.consumer_uuid for claim in claims} | {one for one, _ in releases}
    known = frozenset().union(*(waiting(store, consumer) for consumer in consumers))
    return store.commit([Placement(claims, tuple(releases), replaces=known)])[0]


def waiting(store, consumer=A):
    """The names of a consumer's pending claim and open resize."""
    found = store.claims(consumer)
    return frozenset(one.name for one in found if one.resizing or not one.is_confirmed)


def facts(store, host=HOST):
    """All that the store knows of a node."""
    return {one.report.host: one for one in store.changes({}).nodes}[host]


def generation(store, host=HOST):
    return facts(store, host).generation


def kept(store):
    """What each consumer has where: (consumer, node) -> state."""
    return {one.key: one.state for one in store.claims()}


def vcpus(store):
    return {one.key: one.resources[VCPU] for one in store.claims()}


def judged_by(store, uuid=None):
    """The use that a claim on the node is judged by, as a claim that cannot be granted is told."""
    (used,) = all_judged_by(store, [uuid or node()])
    return used


def all_judged_by(store, uuids):
    """The same of several nodes, in one commit."""
    wants = [claim(uuid_of(f'too large for {uuid}'), uuid, vcpus=10**6) for uuid in uuids]
    outcomes = store.commit([Placement((one,)) for one in wants])
    assert not any(outcome.won for outcome in outcomes)
    return [nonzero(outcome.used[uuid]) for uuid, outcome in zip(uuids, outcomes, strict=True)]


def nonzero(amounts):
    return {name: amount for name, amount in amounts.items() if amount}


def confirmed(consumer, host=HOST, **words):
    return claim(consumer, node(host), state=CONFIRMED, **words)


def check_books(store):
    """The use that claims are judged by is, on every node, that of its claims and the unclaimed
    usage."""
    nodes = store.changes({}).nodes
    judged = all_judged_by(store, [one.report.node_uuid for one in nodes])
    for one, used in zip(nodes, judged, strict=True):
        total = dict(one.foreign)
        for held in one.claims:
            assert held.node_uuid == one.report.node_uuid
            for name, amount in held.resources.items():
                total[name] = total.get(name, 0) + amount
        assert used == nonzero(total)
    claims = store.claims()
    assert sorted(held.uuid for one in nodes for held in one.claims) == sorted(
        held.uuid for held in claims
    )
    # Each member in an exclusive domain carries its token; once swept, each domain has members.
    assert all(set(held.fences) <= one.fences for one in nodes for held in one.claims)
    store.end_domains()
    behind = {token for held in claims for token in held.fences}
    assert {token for one in store.changes({}).nodes for token in one.fences} == behind


def settled(store, consumer=A, host=HOST):
    """The consumer is confirmed on the host, and a report has shown it there."""
    place(store, claim(consumer, node(host)))
    store.report([report(host, instances=frozenset([consumer]))])


def at(store, now_s):
    """Let it be this time by the store's clock."""
    store.clock = lambda: now_s


def resize(store, vcpus, host=HOST):
    """Claim for A, where it is already; the claim that asks for it."""
    asked = claim(A, node(host), vcpus=vcpus)
    assert place(store, asked).won
    return asked


def move(store):
    """Claim for A on OTHER in addition to HOST; the claim."""
    made = claim(A, node(OTHER), move=RESIZE)
    assert store.commit([Placement((made,))])[0].won
    return made


def remove(store, host=HOST):
    """Remove a node as it is now, with what is on it."""
    return store.remove_node(node(host), store.heads().get(node(host), (0,))[0])
