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
"""Clouds on clusters, for the crowd: which nodes are killed and cut off meanwhile, and what is
checked of the cluster in the end.

Each has ``plan``, words of the crowd's Plan; ``cloud()``, a block in which the Cloud runs;
``settled()``, which comes back when all servers have all that was written; ``figures()`` to print;
and ``faults()``, what is wrong by what it is about, once the cloud has ended.
"""

import contextlib
import itertools

from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.tests.clusters.outages import CutOffNode, KilledNode
from nova_sched.tests.fixtures import galera, rabbitmq, rabbitmq_cluster
from nova_sched.tests.integration import stage
from nova_sched.tests.integration.cloud import DURABLE, Cloud

AWAY_S = 12.0
QUORUM = {
    **DURABLE,
    'oslo_messaging_rabbit.rabbit_quorum_queue': True,
    'oslo_messaging_rabbit.rabbit_transient_quorum_queue': True,
}


class GaleraCloud(Cloud):
    """A cloud on a Galera cluster: each daemon has a server of its own, by turns."""

    def __init__(self, home, url, urls):
        super().__init__(home, url, urls[0])
        self._urls = itertools.cycle(urls)

    def daemon(self, name='one', start=True, **options):
        own = {'database__connection': next(self._urls)}
        return super().daemon(name, start, **own, **options)


class OnGalera:
    """Each server is killed once and cut off once."""

    def __init__(self, cluster, broker, home):
        self._cluster, self._broker, self._home = cluster, broker, home
        self._name = cluster.fresh()
        first, second, third = cluster.nodes
        killed = [KilledNode(node, AWAY_S) for node in (second, first, third)]
        cut_off = [CutOffNode(cluster, node, AWAY_S) for node in (third, second, first)]
        outages = tuple(itertools.chain(*zip(killed, cut_off, strict=True)))
        # Where a transaction is undone for another server's while MariaDB reads a trigger, each
        # later write to the table fails as if the trigger were wrong.
        self.plan = {'outages': outages, 'triggers': False}

    def cloud(self):
        urls = [node.url(self._name) for node in self._cluster.nodes]
        made = db_engine.create(urls[0])
        schema.upgrade(made)
        made.dispose()
        self._cluster.settle()
        return contextlib.closing(GaleraCloud(self._home, self._broker.fresh(), urls))

    def settled(self):
        self._cluster.settle()

    def figures(self):
        return {'undone for others': self._cluster.conflicts()}

    def faults(self):
        self._cluster.settle()  # only now: the daemons sent heartbeats
        return {'servers': self._cluster.differences(self._name)}


class OnRabbitmq:
    """The queues are quorum queues; one node is killed, and another one cut off."""

    def __init__(self, cluster, server, home):
        self._cluster, self._server, self._home = cluster, server, home
        first, second, _ = cluster.nodes
        outages = KilledNode(first, AWAY_S), CutOffNode(cluster, second, AWAY_S)
        self.plan = {'outages': outages, 'bus': QUORUM}

    def cloud(self):
        url = stage.upgraded(self._server)
        return contextlib.closing(Cloud(self._home, self._cluster.fresh(), url))

    def settled(self):
        """Nothing is to be waited for."""

    def figures(self):
        return {}

    def faults(self):
        return {}


@contextlib.contextmanager
def private(kind, database, home):
    """One of the two, on servers that end with the block: ``galera``, or ``rabbitmq`` with this
    database."""
    with contextlib.ExitStack() as end:
        if kind == 'galera':
            servers = end.enter_context(galera.server()), end.enter_context(rabbitmq.server())
            yield OnGalera(*servers, home)
        else:
            broker = end.enter_context(rabbitmq_cluster.server())
            server = end.enter_context(stage.DATABASES[database].server())
            yield OnRabbitmq(broker, server, home)
