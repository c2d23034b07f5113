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
"""`health check`: whether the services of a site work, for units, containers and monitoring."""

import functools
import http.client
import json
import urllib.parse

from nova_sched import errors, rpc, urls
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd import startup
from nova_sched.cmd.manage import arguments, asking, output, store, tables
from nova_sched.cmd.manage.arguments import option
from nova_sched.conf.cluster import reads_nova
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.engine.sync.membership import SILENT_S
from nova_sched.rpc.agent import AgentClient
from nova_sched.rpc.client import QueuesClient

TIMEOUT_S = 10.0  # for an answer
MANAGED = 2  # queues that managers take from; they are listed first


def check(args, conf):
    """Check the database, the bus and the schedulers

    A scheduler is healthy if it has updated its row in the database within the given time. It does
    that in turn with polls that wait for its decisions, so one that hangs is not healthy. With
    --host only schedulers of that host count. With --api the REST API must be ready, too. --part
    checks the named parts instead: nodes (one compute node, or --nodes of them, have reported
    within [DEFAULT] service_down_time; where hosts are read from Nova, the schedulers have read
    them, and 'cloud status' checks them), queues (a manager of queues answers, and takes results),
    agent (that of --host, or of [DEFAULT] host, answers); bus and agent need no database. The
    exit status is 0 if all is healthy, else 1.

    Keys: part, healthy, detail (for each part).
    """
    wanted = args.part or ['schedulers', 'bus']
    trials = {name: functools.partial(PARTS[name], args, conf) for name in PARTS if name in wanted}
    if args.api:
        trials['api'] = functools.partial(api, args.api)
    parts = asking.results(
        [functools.partial(checked, name, trial) for name, trial in trials.items()]
    )
    shown = {
        'Part': lambda row: row['part'],
        'State': lambda row: 'healthy' if row['healthy'] else 'FAILED',
        'Detail': lambda row: row['detail'],
    }
    output.show(args, parts, shown)
    return 0 if all(part['healthy'] for part in parts) else 1


def checked(name, trial):
    """Return the row of a part. ``trial()`` returns whether it is healthy, and the detail; an
    error of it is the detail of a part that is not."""
    try:
        healthy, detail = trial()
    except errors.SchedError as error:
        healthy, detail = False, str(error)
    return {'part': name, 'healthy': healthy, 'detail': detail}


def database(args, conf):
    """The schedulers that the database lists."""
    schedulers = SqlSchedulers(store.ready(conf))
    alive = schedulers.alive(schedulers.now_s() - args.within)
    here = [scheduler for scheduler in alive if args.host in (None, scheduler.host)]
    where = f' of host {args.host}' if args.host else ''
    seen = f'{tables.count(len(here), "scheduler")}{where} heard within {args.within:g} s'
    return bool(here), seen


def bus(_args, conf):
    """The message bus of [DEFAULT] transport_url."""
    with startup.bus(conf) as transport:
        rpc.try_once(transport)
    return True, 'it accepts connections'


def nodes(args, conf):
    """The compute nodes that have reported; those that are known, where only Nova knows which of
    them are up."""
    claims = SqlClaimStore(store.ready(conf))
    now_s, heads = claims.now_s(), claims.heads()
    known = tables.count(len(heads), 'compute node')
    if reads_nova(conf):
        return len(heads) >= args.nodes, f'{known} read from Nova'
    within_s = conf.service_down_time
    heard = sum(now_s - seen_s <= within_s for _, seen_s in heads.values())
    return heard >= args.nodes, f'{heard} of {known} heard within {within_s} s'


def queues(_args, conf):
    """A manager of queues, and the queues that managers take from."""

    def question(transport):
        facts = QueuesClient(transport, TIMEOUT_S).facts(None, MANAGED)
        silent = [queue['queue'] for queue in facts if not queue['consumers']]
        words = f'no manager takes from {", ".join(silent)}' if silent else 'a manager answers'
        return not silent, words

    return ask(conf, question)


def agent(args, conf):
    """The agent of one host."""
    host = args.host or conf.host

    def question(transport):
        count = tables.count(len(AgentClient(transport, host, TIMEOUT_S).instances()), 'instance')
        return True, f'that of host {host} answers; it has {count}'

    return ask(conf, question)


def ask(conf, question):
    """Return what ``question(bus)`` returns, if the bus answers at all."""
    with startup.bus(conf) as transport:
        try:
            rpc.try_once(transport)
        except errors.BrokerUnavailable:
            return False, 'the bus does not answer'
        return question(transport)


PARTS = {'schedulers': database, 'bus': bus, 'nodes': nodes, 'queues': queues, 'agent': agent}


def api(url):
    """What the REST API at this URL says of itself."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == 'https' else http.client.HTTPConnection
    try:
        connection = kind(parts.netloc.rpartition('@')[2], timeout=TIMEOUT_S)
        connection.request('GET', f'{parts.path.rstrip("/")}/healthcheck/ready')
        answer = connection.getresponse()
        readiness = json.loads(answer.read())
        return answer.status == 200, readiness['reason'] or 'ready'
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        return False, f'{urls.shown(url)}: {error or type(error).__name__}'


VERBS = (
    (
        'check',
        check,
        option('--host', help='count only schedulers of this host; for --part agent: the host'),
        option(
            '--within',
            metavar='SECONDS',
            type=float,
            default=SILENT_S,
            help=f'how long ago a scheduler may have been heard ({SILENT_S:g})',
        ),
        option(
            '--part',
            choices=tuple(PARTS),
            action='append',
            help='check this part; may be repeated',
        ),
        option(
            '--nodes',
            metavar='N',
            type=arguments.from_1,
            default=1,
            help='how many compute nodes must have reported, for --part nodes (1)',
        ),
        option('--api', metavar='URL', help='the REST API, such as http://127.0.0.1:8790'),
    ),
)
