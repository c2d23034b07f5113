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
"""A plan is carried out on simulated hosts under load, while schedulers and conductors are
killed."""

import collections
import contextlib
import itertools
import json
import random
import threading
import uuid

import pytest

from nova_sched import errors, objects
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd import manage
from nova_sched.db import engine as db_engine
from nova_sched.db.rebalances import CONFIRMED, REFUSED, REVERTED, SqlRebalances
from nova_sched.extensions.simulator import conductor, session
from nova_sched.extensions.simulator.machines import Plan, machines
from nova_sched.extensions.simulator.simulated_hosts import CallPool, SimulatedHosts
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc.client import ClaimsClient, SchedulerClient, StatsClient
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.integration import audit
from nova_sched.tests.integration.cloud import Cloud
from nova_sched.tests.integration.stage import upgraded
from nova_sched.tests.simulated_mover import SimulatedMigrations, SimulatedMover

HOSTS, SERVERS, SOURCES = 200, 260, 35
LARGE, SMALL = TraceFlavor('large', 16, 16 * 1024), TraceFlavor('small', 1, 1024)
SILENT_S = 5.0  # a caller without an answer for so long goes on
MOVE_S = 0.1  # what a migration takes


@pytest.fixture
def cloud(rabbitmq, postgresql, tmp_path):
    made = Cloud(tmp_path, rabbitmq.fresh(), upgraded(postgresql))
    made.options = {'rebalance.in_flight': 8}
    yield made
    made.close()


class Stage:
    """Simulated hosts with servers on a cloud, and the conductors that boot and move them."""

    def __init__(self, cloud, pool):
        self.bus, self._pool = cloud.bus, pool
        self.nodes = {node.uuid: node for node in machines(Plan(HOSTS, failing=0.02))}
        self.hosts = SimulatedHosts(list(self.nodes.values()), cloud.bus, pool)
        self.hosts._stats = StatsClient(cloud.bus, SILENT_S)
        self.migrations = SimulatedMigrations(self.hosts)
        self.apart = collections.defaultdict(set)  # server group -> members, on as many hosts
        self._claims, self._lost = ClaimsClient(cloud.bus, SILENT_S), set()
        self._conductor = conductor.SimulatedConductor(cloud.bus, self.hosts)
        self._conductor._conductor.scheduler = SchedulerClient(cloud.bus, SILENT_S)
        self._conductor._conductor.claims = self._claims
        self._chance = random.Random(1)

    def boot(self, flavor, group=None):
        """A server that runs; None if it does not."""
        server = str(uuid.uuid4())
        spec = conductor.spec(flavor, [server])
        if group is not None:
            self.apart[group].add(server)
            spec.instance_group = objects.InstanceGroup(
                uuid=group, policy='anti-affinity', members=sorted(self.apart[group]), hosts=[],
                rules={},
            )  # fmt: skip
        hosts = {}
        with contextlib.suppress(errors.SchedError):
            hosts = self._conductor.boot(spec, [server]).hosts
        if hosts:
            self.migrations.specs[server] = spec
            return server
        self.apart[group].discard(server)
        self._lost.add(server)
        return None

    def drop(self, server):
        """A server is deleted, whether its node has reported it or not."""
        if not self.hosts.nodes[self.migrations.host_of(server)].drop(server):
            self._lost.add(server)
        self.migrations.specs.pop(server)

    def forget_lost(self):
        """End the claims of servers that never ran, or were deleted before a report listed them:
        the answers of such calls may have been lost with a scheduler."""
        for server in self._lost:
            with contextlib.suppress(errors.ClaimNotFound):
                for one in self._claims.show(server):
                    self._claims.abort_claim(server, claim=one.name, confirmed=True)

    def mover(self, name):
        made = SimulatedMover(self.bus, name, self.migrations, self._pool,
                              lambda: threading.Event().wait(MOVE_S), self._times)  # fmt: skip
        made.serve()
        return made

    def _times(self):
        """How often an outcome is told: some messages are lost, some come twice."""
        return self._chance.choice([0, *[1] * 15, *[2] * 4])

    def plan(self):
        """(moves, sources): the hosts with the fewest servers are emptied. Two moves cannot be."""
        used = {one: node for one, node in self.nodes.items()
                if node.instances and not node.disabled}  # fmt: skip
        order = sorted(used, key=lambda one: (len(used[one].instances), one))
        sources, others = order[:SOURCES], order[SOURCES:]
        free = {one: 64 - 16 * len(used[one].instances) for one in others}
        moves = []
        for source in sources:
            for server in sorted(self.nodes[source].instances):
                destination = next(one for one in reversed(others) if free[one] >= 20)
                free[destination] -= 16
                moves.append({'server': server, 'source': source, 'destination': destination})
        closed = next(one for one, node in self.nodes.items() if node.disabled)
        moves[-1]['destination'] = closed
        return moves, sources


class Watch:
    """Looks at the database again and again for anything that breaks a rule."""

    def __init__(self, cloud, stage):
        self.faults, self.looks = [], 0
        self._cloud, self._stage = cloud, stage
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        while not self._over.wait(0.3):
            self.look()

    def look(self):
        self.faults += audit.faults(self._cloud.database)
        placed = audit.placed(self._cloud.database)
        for group, members in list(self._stage.apart.items()):
            nodes = [placed.get(one, []) for one in list(members)]
            for one, other in itertools.combinations(nodes, 2):
                if set(one) & set(other):
                    self.faults.append(f'two members of group {group} are on one node')
        self.faults += [f'{one} has {nodes}' for one, nodes in placed.items() if len(nodes) > 2]
        self.looks += 1


def load(stage, over):
    """Small servers come, and every other one goes, until the end."""
    number = 0
    while not over.wait(0.05):
        server, number = stage.boot(SMALL), number + 1
        if server is not None and number % 2:
            stage.drop(server)


def test_a_plan_under_load_with_kills(cloud, tmp_path, capsys):
    one, two = cloud.daemons(2)
    made = db_engine.create(cloud.database)
    rebalances, over = SqlRebalances(made), threading.Event()
    with CallPool(16) as pool:
        stage = Stage(cloud, pool)
        stage.hosts.join()
        groups = [str(uuid.uuid4()) for _ in range(20)]
        asked = [(LARGE, groups[number // 3] if number < 60 else None)
                 for number in range(SERVERS)]  # fmt: skip
        stage._pool.each(lambda words: stage.boot(*words), asked)
        stage.hosts.report_all()
        moves, sources = stage.plan()
        gone = moves[0]['server']
        stage.drop(gone)
        stage.hosts.report()
        movers = [stage.mover('conductor-1'), stage.mover('conductor-2')]
        plan = tmp_path / 'plan.json'
        plan.write_text(json.dumps({'moves': moves}))
        command = ['--config-file', str(one.settings), 'rebalance', 'run', str(plan)]
        assert manage.main([*command, '--close', '1h', '--format', 'json']) == 0
        shown = json.loads(capsys.readouterr().out)['rebalance_uuid']

        def ended(number):
            counts = rebalances.list(shown)[0].counts
            return sum(counts.get(state, 0) for state in (CONFIRMED, REVERTED, REFUSED)) >= number

        loads = [threading.Thread(target=load, args=(stage, over)) for _ in range(2)]
        with Watch(cloud, stage) as watch:
            for thread in loads:
                thread.start()
            eventually(lambda: ended(5), 60)
            movers[0].kill()
            one.kill()
            one.start()
            eventually(lambda: ended(20), 60)
            two.kill()
            two.start()
            movers += [stage.mover('conductor-3')]
            eventually(lambda: ended(len(moves)), 90)
            over.set()
            for thread in loads:
                thread.join()
            stage.hosts.report_all()
            stage.forget_lost()
        for mover in movers[1:]:
            mover.stop()
        entries = rebalances.moves(shown)
        check(cloud, stage, watch, entries, sources, gone)
        accounts = session.stored_accounts(SqlClaimStore(made))
        assert session.audit(accounts, list(stage.nodes.values())) == []
    made.dispose()


def check(cloud, stage, watch, entries, sources, gone):
    assert watch.looks > 3
    assert watch.faults == []
    assert audit.faults(cloud.database) == []
    where = {server: node.uuid for node in stage.nodes.values() for server in node.instances}
    assert audit.placed(cloud.database) == {server: [node] for server, node in where.items()}
    for one in entries:
        if one.state == CONFIRMED:
            assert where[one.server] == one.destination
        else:
            assert one.why
            assert where.get(one.server) == (None if one.server == gone else one.source)
    stays = {one.source for one in entries if one.state != CONFIRMED and one.server != gone}
    by_server = {one.server: one for one in entries}
    # A scheduler that had not read yet that they are closed may have placed a new server there.
    emptied = {one for one in sources if by_server.keys().isdisjoint(stage.nodes[one].instances)}
    assert emptied == set(sources) - stays
    new = sum(len(stage.nodes[one].instances) for one in emptied)
    assert 'has no claim' in by_server[gone].why
    assert [one.state for one in entries].count(CONFIRMED) > len(entries) / 2
    closed = [one for one in entries if stage.nodes[one.destination].disabled]
    assert [one.state for one in closed] == [REFUSED]
    print(
        f'{len(emptied)} of {len(sources)} hosts emptied, {new} new servers there',
        collections.Counter((one.state, (one.why or '')[:60]) for one in entries),
    )
