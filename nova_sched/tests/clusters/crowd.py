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
"""A crowd of callers while nodes of a cluster are killed and cut off: was every answer right?

    python -m nova_sched.tests.clusters.crowd --cluster galera --requests 5000
    python -m nova_sched.tests.clusters.crowd --cluster rabbitmq --requests 5000

On ``galera`` each scheduler writes to a server of its own, by turns: what one claims, the servers
of the others must certify. Each server is killed once and cut off once. Of ``rabbitmq``, whose
queues are quorum queues, one node is killed and another one cut off. Schedulers are killed all the
time as well. Ends with status 1 if anything was wrong.
"""

import contextlib
import itertools
import json
import sys

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.tests.clusters.outages import CutOffNode, KilledNode
from nova_sched.tests.fixtures import galera, rabbitmq, rabbitmq_cluster
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.integration import crowd, stage
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


@contextlib.contextmanager
def on_galera(cluster, broker, home):
    """A cloud on a new database of the cluster; yields it, and the name of the database."""
    name = cluster.fresh()
    urls = [node.url(name) for node in cluster.nodes]
    made = db_engine.create(urls[0])
    schema.upgrade(made)
    made.dispose()
    cluster.settle()
    with contextlib.closing(GaleraCloud(home, broker.fresh(), urls)) as cloud:
        yield cloud, name


def run_on_galera(cluster, broker, home, requests, tell=stage.tell, **how):
    """The crowd's Outcome; servers of the cluster are killed and cut off meanwhile."""
    first, second, third = cluster.nodes
    killed = [KilledNode(node, AWAY_S) for node in (second, first, third)]
    cut_off = [CutOffNode(cluster, node, AWAY_S) for node in (third, second, first)]
    outages = tuple(itertools.chain(*zip(killed, cut_off, strict=True)))
    with on_galera(cluster, broker, home) as (cloud, name):
        # Where a transaction is undone for another server's while MariaDB reads a trigger, each
        # later write to the table fails as if the trigger were wrong.
        plan = crowd.Plan(requests, outages=outages, triggers=False, **how)
        outcome = crowd.run(cloud, plan, tell, settled=cluster.settle)
        outcome.figures['undone for others'] = cluster.conflicts()
    # Only now: the daemons give signs of life.
    cluster.settle()
    outcome.faults['servers'] = cluster.differences(name)
    return outcome


def run_on_rabbitmq(cluster, server, home, requests, tell=stage.tell, **how):
    """The crowd's Outcome; nodes of the broker are killed and cut off meanwhile."""
    first, second, _ = cluster.nodes
    outages = KilledNode(first, AWAY_S), CutOffNode(cluster, second, AWAY_S)
    with contextlib.closing(Cloud(home, cluster.fresh(), stage.upgraded(server))) as cloud:
        return crowd.run(cloud, crowd.Plan(requests, outages=outages, bus=QUORUM, **how), tell)


def main():
    parser = stage.arguments(
        __doc__.splitlines()[0], schedulers=4, callers=64, requests=5_000, seed=0
    )
    parser.add_argument('--cluster', choices=('galera', 'rabbitmq'), default='galera')
    chosen = parser.parse_args()
    stage.prepare()
    how = {
        'schedulers': chosen.schedulers,
        'callers': chosen.callers,
        'seed': chosen.seed,
        'limit_s': chosen.limit,
    }
    try:
        with stage.folder(chosen.keep) as home, contextlib.ExitStack() as end:
            if chosen.cluster == 'galera':
                servers = end.enter_context(galera.server()), end.enter_context(rabbitmq.server())
                outcome = run_on_galera(*servers, home, chosen.requests, **how)
            else:
                broker = end.enter_context(rabbitmq_cluster.server())
                server = end.enter_context(stage.DATABASES[chosen.database].server())
                outcome = run_on_rabbitmq(broker, server, home, chosen.requests, **how)
            (home / 'answers.json').write_text('\n'.join(map(json.dumps, outcome.answers)))
    except (KeyboardInterrupt, ServerFailed) as error:
        sys.exit(f'ended: {str(error) or "interrupted"}')
    sys.exit(stage.finish(outcome.figures, outcome.faults))


if __name__ == '__main__':
    main()
