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
"""What tests of the engine need: simple rules, and a scheduler whose loop turns by hand."""

import contextlib
import random
import types

import numpy as np

from nova_sched import errors
from nova_sched.claim import VCPU
from nova_sched.claims import ClaimSelector, Placement
from nova_sched.engine import Settings
from nova_sched.engine.catalog import Rules, always
from nova_sched.engine.clock import StoreClock
from nova_sched.engine.context import Context
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.engine.scheduler import CALL, REPORT, Scheduler
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.filters import Filter, RowFilter
from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.groups.topology import DomainTopology
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import NOW, of_now, request, uuid_of
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.weighers import Weigher
from nova_sched.weighers.ram import RAMWeigher

# Nothing happens by itself while a test looks.
SETTINGS = {'refresh_interval_s': 1e9, 'retry_interval_s': 0.001, 'service_down_time_s': 60.0}


A, B, C, D = (uuid_of(f'instance {letter}') for letter in 'ABCD')


def node(host='host-0'):
    return uuid_of(f'node {host}')


def asks(instance=A, **words):
    return request(instance_uuid=instance, **words)


class Named(Filter):
    """Keeps the hosts of these names; ``asked`` counts how often it was."""

    def __init__(self, *hosts, name='Named', once=False, rebuild=False):
        self._hosts = hosts
        self._name = name
        self.run_filter_once_per_request = once
        self.RUN_ON_REBUILD = rebuild
        self.asked = 0

    @property
    def name(self):
        return self._name

    def mask(self, hosts, request):
        self.asked += 1
        return hosts.named(self._hosts)


class Opened(RowFilter):
    """Looks at each host by itself; ``seen`` tells at which."""

    def __init__(self, *hosts):
        self._hosts = hosts
        self.seen = []

    def passes(self, host_state, request):
        self.seen.append(host_state.host)
        return host_state.host in self._hosts


class Score(Weigher):
    """A raw weight for each row, in order; a multiplier of one number or a list."""

    def __init__(self, *raw, multiplier=1.0, minval=None, maxval=None):
        self._raw = raw
        self._multiplier = multiplier
        self.minval, self.maxval = minval, maxval

    def raw(self, hosts, rows, request):
        return None if self._raw == (None,) else np.array(self._raw, dtype=float)[rows]

    def multiplier(self, hosts, rows):
        return (
            np.array(self._multiplier)[rows]
            if isinstance(self._multiplier, list)
            else self._multiplier
        )


def rules(filters=(), weighers=(), always_on=None):
    return Rules(
        always() if always_on is None else tuple(always_on), tuple(filters), tuple(weighers)
    )


def spreading():
    """Rules as of a real scheduler: what is always on, groups, and the most free memory first."""
    return rules([ServerGroupAntiAffinityFilter(), ServerGroupAffinityFilter()], [RAMWeigher()])


def names(hosts, rows):
    return [hosts.nodes[row].host for row in rows]


class World:
    """One scheduler; its loop turns when the test says so. Its clock stands at ``now_s``.

    Its cluster is what the store knows, or the one that is given; and so is its clock.
    """

    def __init__(
        self,
        store=None,
        chain=None,
        seed=1,
        max_batch=64,
        cluster=None,
        candidates=None,
        membership=None,
        topology=None,
        solver=None,
        clock=None,
        writer=None,
        limits=None,
        reads_nova=False,
        before_refusal=None,
        extensions=types.MappingProxyType({}),
        **settings,
    ):
        self.store = MemoryClaimStore() if store is None else store
        self.settings = Settings(**{**SETTINGS, **settings})
        self.cluster = Cluster() if cluster is None else cluster
        self.now_s = NOW
        if not isinstance(clock, StoreClock) and self.store.clock is None:
            self.store.clock = clock or (lambda: self.now_s)
        self.context = Context(
            cluster=self.cluster,
            store=self.store,
            settings=lambda: self.settings,
            clock=clock or (lambda: self.now_s),
            random=random.Random(seed),
            topology=topology or DomainTopology(),
            membership=membership or SchedulerMembership(),
            reads_nova=reads_nova,
            rules=spreading() if chain is None else chain,
            max_batch=max_batch,
            candidates=candidates,
            solver=solver,
            writer=writer,
            limits=limits or (lambda _project_id: {}),
            before_refusal=before_refusal,
        )
        self.scheduler = Scheduler(self.context, extensions)
        self.state_sync = self.scheduler.state_sync
        self.claim_service = self.scheduler.claim_service
        self.loop = self.scheduler.loop
        if cluster is None:
            self.state_sync.refresh()

    def send_place(self, *requests, alternates=False, claim=True, request_id=None):
        context = request_id and types.SimpleNamespace(request_id=request_id)
        return self.loop.send(PLACE, Order(list(requests), alternates, claim, context))

    def send_report(self, report):
        return self.loop.send(REPORT, report)

    def send_call(self, work, *args):
        return self.loop.send(CALL, (work, args))

    def turn_until(self, *futures):
        """Turn the loop until all are answered; at most a hundred times."""
        for _ in range(100):
            if all(future.done() for future in futures):
                return
            self.loop.turn()
        raise AssertionError('no answer')

    def place(self, *requests, **words):
        """Hosts of each instance, the chosen one first. Raises what the caller would see."""
        future = self.send_place(*requests, **words)
        self.turn_until(future)
        return [[one.host for one in chosen] for chosen in future.result()]

    def report(self, *reports):
        """Apply reports. One without any order is of now."""
        futures = [
            self.send_report(of_now(self.store, one) if one.order == ReportOrder() else one)
            for one in reports
        ]
        self.turn_until(*futures)
        return [future.result() for future in futures]

    def call(self, work, *args):
        future = self.send_call(work, *args)
        self.turn_until(future)
        return future.result()


def end_claims(claim_service, consumer, host=None):
    """End the instance's claims by their names, as a caller that sees them now. Runs in the
    loop."""
    ended = []
    for one in claim_service.claims_of(consumer):
        with contextlib.suppress(errors.ClaimNotFound):  # on another host
            ended += claim_service.abort_claim(consumer, host, ClaimSelector(one.name))
    if not ended:
        raise errors.ClaimNotFound(consumer)
    return ended


def settle_claim(claim_service, consumer, host):
    """Confirm the instance's claim on the host by its name. Runs in the loop."""
    for one in claim_service.claims_of(consumer):
        with contextlib.suppress(errors.ClaimNotFound):  # on another host
            return claim_service.confirm_claim(consumer, host, ClaimSelector(one.name))
    raise errors.ClaimNotFound(consumer)


def fresh(store, **settings):
    """The cluster as a scheduler that starts now knows it."""
    return World(store, **settings).cluster


def picture(cluster):
    """Everything about use, claims and places: by node UUID, in plain values that can be
    compared."""
    hosts = cluster.hosts
    found = {}
    for row, node in enumerate(hosts.nodes):
        found[node.uuid] = {
            'name': (node.host, node.nodename),
            'claims': dict(node.claims),
            'foreign': {name: amount for name, amount in node.foreign.items() if amount},
            'foreign_instances': node.foreign_instances,
            'machine': node.machine,
            'num_instances': int(hosts.num_instances[row]),
            'num_io_ops': int(hosts.num_io_ops[row]),
            'instances': frozenset(node.instances),
            'places': frozenset(one for one, rows in hosts.places.items() if row in rows),
            'use': {
                name: tuple(
                    int(getattr(resource, column)[row]) for column in ('used', 'free', 'unused')
                )
                for name, resource in hosts.resources.items()
                if name in node.report.inventories
            },
        }
    assert all(rows for rows in hosts.places.values())
    return found


def states(world):
    """(consumer, host) -> state of every claim. The cluster and the store agree."""
    held = {
        (claim.consumer_uuid, there.host): claim.state
        for there in world.cluster
        for claim in there.claims.values()
    }
    hosts = {there.uuid: there.host for there in world.cluster}
    stored = {
        (claim.consumer_uuid, hosts[claim.node_uuid]): claim.state
        for claim in world.store.claims()
    }
    assert held == stored
    return held


def used(world):
    return world.cluster.hosts.resource(VCPU).used.tolist()


def commit(store, *claims):
    """As another scheduler does it."""
    assert store.commit([Placement(claims)])[0].won
