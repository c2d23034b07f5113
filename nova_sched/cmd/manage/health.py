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

import http.client
import json
import urllib.parse

from nova_sched import errors, rpc
from nova_sched.cmd.manage import output, store, tables
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.engine.sync.membership import SILENT_S

TIMEOUT_S = 10.0  # for the REST API


def check(args, conf):
    """Check the database, the bus and the schedulers

    A scheduler is healthy if it has updated its row in the database within the given time. It does
    that in turn with polls that wait for its decisions, so one that hangs is not healthy. With
    --host only schedulers of that host count. With --api the REST API must be ready, too. The exit
    status is 0 if all is healthy, else 1.

    Keys: part, healthy, detail (for each part).
    """
    parts = [database(args, conf), bus(conf)]
    if args.api:
        parts.append(api(args.api))
    shown = {
        'Part': lambda row: row['part'],
        'State': lambda row: 'healthy' if row['healthy'] else 'FAILED',
        'Detail': lambda row: row['detail'],
    }
    output.show(args, parts, shown)
    return 0 if all(one['healthy'] for one in parts) else 1


def part(name, healthy, detail):
    return {'part': name, 'healthy': healthy, 'detail': detail}


def database(args, conf):
    """The schedulers that the database lists."""
    try:
        schedulers = SqlSchedulers(store.ready(conf))
        now_s = schedulers.now_s()
        found = schedulers.alive(now_s - args.within)
    except errors.SchedError as error:
        return part('schedulers', False, str(error))
    here = [one for one in found if args.host in (None, one.host)]
    where = f' of host {args.host}' if args.host else ''
    seen = f'{tables.count(len(here), "scheduler")}{where} heard within {args.within:g} s'
    return part('schedulers', bool(here), seen)


def bus(conf):
    """The message bus of [DEFAULT] transport_url."""
    made = rpc.transport(conf)
    try:
        rpc.try_once(made)
    except errors.BrokerUnavailable as error:
        return part('bus', False, str(error))
    finally:
        made.cleanup()
    return part('bus', True, 'it accepts connections')


def api(url):
    """What the REST API at this URL says of itself."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == 'https' else http.client.HTTPConnection
    try:
        connection = kind(parts.netloc, timeout=TIMEOUT_S)
        connection.request('GET', f'{parts.path.rstrip("/")}/healthcheck/ready')
        answer = connection.getresponse()
        said = json.loads(answer.read())
        return part('api', answer.status == 200, said['reason'] or 'ready')
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        return part('api', False, f'{url}: {error or type(error).__name__}')


def _options(parser):
    parser.add_argument('--host', help='count only schedulers of this host')
    parser.add_argument(
        '--within',
        metavar='SECONDS',
        type=float,
        default=SILENT_S,
        help=f'how long ago a scheduler may have been heard ({SILENT_S:g})',
    )
    parser.add_argument('--api', metavar='URL', help='the REST API, such as http://127.0.0.1:8790')


VERBS = (('check', check, _options),)
