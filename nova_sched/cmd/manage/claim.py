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
"""`claim`: who holds what on which host."""

from nova_sched.cmd.manage import cloud, rows, store, tables

NOUN = 'claim'
HELP = 'show what the schedulers have claimed on hosts'


def list_claims(args, conf):
    """List claims, oldest first

    A claim is planned (a member of a group that is not created yet), pending (chosen, and on its way to the
    host) or confirmed (the host has the instance). One that is not confirmed ends when it expires.

    Keys with --format json: claim_uuid, consumer_uuid, host, node, node_uuid, state, resources (amount by
    class), cells (of the host, with the CPUs, memory and page size that the claim holds there), devices (PCI,
    by kind), providers (below the node, with amounts), project_id, user_id, group_uuid, request_id,
    created_at, expires_at.
    """
    known = cloud.read(conf)
    found = rows.claims(known, store.opened(conf).claims(args.consumer))
    wanted = {'host': args.host, 'project_id': args.project, 'state': args.state}
    kept = [row for row in found if all(value in (None, row[key]) for key, value in wanted.items())]
    tables.show(tables.listing(args.format, columns(known.now_s), kept))
    return 0


def columns(now_s):
    return {
        'Consumer': lambda row: row['consumer_uuid'],
        'Host': _place,
        'State': lambda row: row['state'],
        'Resources': lambda row: tables.amounts(row['resources']),
        'Project': lambda row: row['project_id'] or '-',
        'Made': lambda row: tables.age(row['created_at'], now_s),
        'Expires': lambda row: tables.until(row['expires_at'], now_s),
    }


def _place(row):
    """The host, and its node where that has another name, as with bare metal."""
    if row['host'] is None:
        return 'gone'
    return row['host'] if row['node'] == row['host'] else f'{row["host"]} / {row["node"]}'


def _list_arguments(parser):
    parser.add_argument('--host', metavar='NAME', help='only claims on this host')
    parser.add_argument('--project', metavar='ID', help='only claims of this project')
    parser.add_argument('--state', choices=rows.STATES, help='only claims in this state')
    parser.add_argument('--consumer', metavar='UUID', help='only claims of this instance')


VERBS = (('list', list_claims, _list_arguments),)
