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
"""A crowd of callers at many schedulers on a cluster that is nearly full: was every answer right?

    python -m nova_sched.tests.integration.crowd --database mariadb --schedulers 8 --requests 20000
    python -m nova_sched.tests.integration.crowd --cluster galera --schedulers 4 --requests 5000

RabbitMQ and the database are private. With --storm schedulers are killed all the time, the
database and RabbitMQ once. With --rough schedulers also stand still, two of three have clocks that
are an hour off, and every second one has a link to the database that is slow or cut now and then.
With --cluster the database is a Galera cluster, or RabbitMQ is a cluster with quorum queues, and
its nodes are killed and cut off: see `clusters.clouds`. On Galera each scheduler writes to a
server of its own, by turns: what one claims, the servers of the others must certify.
Ends with status 1 if anything was wrong: see `audit`, `audit_answers`, `audit_refusals`.
"""

import collections
import contextlib
import dataclasses
import json
import re
import sys
import time
from collections.abc import Mapping

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched.tests.clusters import clouds
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.fixtures.proxy import Proxy
from nova_sched.tests.integration import audit, audit_answers, audit_refusals, orders, stage
from nova_sched.tests.integration.cloud import DURABLE
from nova_sched.tests.integration.storm import Storm
from nova_sched.tests.options import settings

ATTEMPT = re.compile(r'; attempt (\d+), ')
WRONG_S = (0, 3600, -3600)  # clocks of schedulers in a rough storm
CALM_S = 3.0  # after a storm, until what was on its way has ended
STEP_S = 5.0


@dataclasses.dataclass
class Plan:
    """How big a crowd, and what it goes through.

    ``outages`` are servers that go down once, in this order: a storm, in which schedulers go down
    every ``pause_s`` seconds, and callers who hear nothing for ``silence_s`` ask again. ``bus``
    are the options of the bus in a storm, as ``{'group.name': value}``. ``triggers``: the database
    bears them (see `audit_refusals.keep_ended`). With a ``link``, the proxy of every second
    scheduler, the storm is rough.
    """

    requests: int
    schedulers: int
    callers: int = 64
    processes: int = 4
    outages: tuple = ()
    pause_s: float = 5.0
    silence_s: float = 10.0
    seed: int = 0
    limit_s: float = 3600.0
    bus: Mapping = dataclasses.field(default_factory=lambda: DURABLE)
    triggers: bool = True
    link: Proxy | None = None

    @property
    def hosts(self):
        return min(300, max(20, self.requests // 40))


@dataclasses.dataclass
class Outcome:
    """What came of it: the callers' answers, what is wrong, by what it is about, and figures to
    print."""

    answers: list
    faults: dict
    figures: dict


def run(cloud, plan, tell=stage.tell, settled=lambda: None):
    """Let the crowd call, and check all that came of it; ``settled`` is called in between."""
    asked = orders.crowd(plan.requests, plan.seed)
    audit_refusals.keep_ended(cloud.database, plan.triggers)
    with settings(plan.bus if plan.outages else {}):
        daemons, crowd = _gather(cloud, plan, asked)
        tell(f'{plan.callers} callers, {plan.schedulers} schedulers, {plan.hosts} hosts are ready')
        begin = time.monotonic()
        with _weather(plan, daemons, crowd.answers, tell) as storm:
            crowd.send(asked)
            _watch(crowd, plan, begin, tell)
        took_s = time.monotonic() - begin
        if storm:
            time.sleep(CALM_S)
        settled()
    answers = list(crowd.answers)
    lies, faults = _judged(cloud.database, plan, asked, answers, storm)
    figures = {**_figures(answers, lies, took_s), **_conflicts(daemons)}
    if storm:
        figures['schedulers killed'] = storm.kills
        if plan.link is not None:
            figures['stood still, links cut'] = f'{storm.pauses}, {storm.cuts}'
    return Outcome(answers, faults, figures)


def run_on_cluster(where, requests, tell=stage.tell, **how):
    """The Outcome on a cluster (see `clusters.clouds`), whose nodes go down meanwhile; ``how`` are
    words of the Plan."""
    with where.cloud() as cloud:
        outcome = run(cloud, Plan(requests, **where.plan, **how), tell, where.settled)
        outcome.figures.update(where.figures())
    outcome.faults.update(where.faults())
    return outcome


def _gather(cloud, plan, asked):
    """The daemons and the callers, before hosts that have room for nearly all."""
    durable = (
        {key.replace('.', '__'): value for key, value in plan.bus.items()} if plan.outages else {}
    )
    rough = {} if plan.link is None else {'wrong': WRONG_S, 'links': (None, plan.link)}
    daemons = cloud.daemons(plan.schedulers, **rough, **stage.DAEMONS, **durable)
    cloud.report(list(orders.hosts_for(asked, plan.hosts)))
    each, timeout_s = plan.callers // plan.processes, plan.silence_s if plan.outages else 0
    return daemons, cloud.crowd(
        daemons[0], processes=plan.processes, at_once=each, timeout_s=timeout_s
    )


def _weather(plan, daemons, answers, tell):
    """A storm, if there is to be one; the outages come at even distances in the first half: a
    server may take half a minute to come back."""
    if not plan.outages:
        return contextlib.nullcontext()
    step = plan.requests // (2 * len(plan.outages))
    outages = [(server, step * place) for place, server in enumerate(plan.outages, 1)]
    return Storm(daemons, outages, answers, plan.pause_s, plan.seed, tell, plan.link)


def _watch(crowd, plan, begin, tell):
    """Come back when all is answered, or the time is over; say how far it is."""
    while not crowd.until(plan.requests, STEP_S):
        answers, passed_s = list(crowd.answers), time.monotonic() - begin
        refused = sum(answer['error'] is not None for answer in answers)
        tell(
            f'{len(answers):,} of {plan.requests:,} answered, {refused:,} without a host, '
            f'{passed_s:.0f} s'
        )
        if passed_s > plan.limit_s:
            tell('the time is over')
            return


def _judged(database, plan, asked, answers, storm):
    """False refusals with the hosts that had room; and all that is wrong, they among it, in
    words."""
    claims, ended, nodes, reports = audit.rows(
        database, 'claims', 'ended_claims', 'nodes', 'reports'
    )
    lies = list(audit_refusals.false_refusals(answers, claims, ended, nodes, reports))
    if not plan.triggers:
        lies = [lie for lie in lies if not audit_refusals.doubtful(answers, *lie)]
    faults = {
        'audit': audit.faults(database),
        'answers': list(audit_answers.wrong(asked, answers, claims)),
        'policies': list(audit_answers.broken(answers, claims, nodes)),
        'false refusals': [audit_refusals.told(*lie) for lie in lies],
    }
    if storm is None:
        faults['ended'] = [f'a claim of {row["consumer_uuid"]} ended' for row in ended]
    elif storm.failure or not storm.is_over:
        faults['storm'] = [f'it did not do its work: {storm.failure or "it was too late"}']
    return lies, faults


def _figures(answers, lies, took_s):
    placed = [answer for answer in answers if answer['error'] is None]
    instances = sum(len(answer['instances']) for answer in placed)
    kinds = collections.Counter(answer['kind'] for answer in answers)
    refused = collections.Counter(answer['kind'] for answer in answers if answer['error'])
    false = collections.Counter(answer['kind'] for answer, _ in lies)
    return {
        'seconds': f'{took_s:.1f}',
        'decisions a second': f'{len(answers) / took_s:.0f}',
        'placed': f'{len(placed)} orders, {instances} instances',
        'errors': dict(
            collections.Counter(answer['error'] for answer in answers if answer['error'])
        ),
        'of them conflicts': sum(
            'taken by other requests' in answer['reason'] for answer in answers
        ),
        'asked again': sum(len(answer['sent_s']) > 1 for answer in answers),
        'without a host': ', '.join(
            f'{kind} {refused[kind]} of {kinds[kind]}' for kind in sorted(kinds)
        ),
        'false refusals': dict(false) or 0,
    }


def _conflicts(daemons):
    """From the daemons' logs: how often a decision was made again because its claim was lost."""
    attempts = [
        int(text) for daemon in daemons for text in ATTEMPT.findall(daemon.log.read_text('utf-8'))
    ]
    again = sum(attempt - 1 for attempt in attempts)
    return {'decided again': f'{again} times, one {max(attempts, default=1) - 1} times'}


def _run_as_chosen(chosen, home):
    """The Outcome on private servers, as the arguments say."""
    how = {
        'schedulers': chosen.schedulers,
        'callers': chosen.callers,
        'seed': chosen.seed,
        'limit_s': chosen.limit,
    }
    if chosen.cluster:
        with clouds.private(chosen.cluster, chosen.database, home) as where:
            return run_on_cluster(where, chosen.requests, **how)
    with (
        stage.private(chosen.database, home) as (cloud, server, broker),
        Proxy(server.port) if chosen.rough else contextlib.nullcontext() as link,
    ):
        outages = (server, broker) if chosen.storm or chosen.rough else ()
        return run(cloud, Plan(chosen.requests, outages=outages, link=link, **how))


def main():
    parser = stage.arguments(
        __doc__.splitlines()[0], schedulers=8, callers=64, requests=20_000, seed=0
    )
    parser.add_argument(
        '--storm', action='store_true', help='kill schedulers, the database and RabbitMQ'
    )
    parser.add_argument(
        '--rough', action='store_true', help='a storm that also pauses, skews, slows and cuts'
    )
    parser.add_argument('--cluster', choices=('galera', 'rabbitmq'), help='kill and cut off nodes')
    chosen = parser.parse_args()
    stage.prepare()
    try:
        with stage.folder(chosen.keep) as home:
            outcome = _run_as_chosen(chosen, home)
            (home / 'answers.json').write_text('\n'.join(map(json.dumps, outcome.answers)))
    except (KeyboardInterrupt, ServerFailed) as error:
        sys.exit(f'ended: {str(error) or "interrupted"}')
    sys.exit(stage.finish(outcome.figures, outcome.faults))


if __name__ == '__main__':
    main()
