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
"""`server`: places servers as a conductor would, without Nova."""

import time
import uuid

from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.cmd.manage import arguments, asking, explain, output, tables
from nova_sched.cmd.manage.arguments import TIMEOUT, option

RECORD_S, PAUSE_S = 2.0, 0.2  # seconds to wait for a record, and between two queries


def place(args, conf):
    """Place servers on a running scheduler, as a conductor would

    The scheduler claims a host for each server; the claims are pending, and end when they expire,
    unless the hosts report the instances or 'claim release' ends them. With --dry-run nothing is
    claimed. With --why the tables of 'explain' follow: of a refusal from the scheduler's record,
    of a success from a dry run just before it.

    Keys: instance_uuid, host, node, node_uuid, alternates (hosts), why (with --why, the keys of
    'explain dry-run'); of a request that is refused: refused (the reason), request_id, why.
    """
    spec = arguments.request_spec(args, conf)
    if args.dry_run:
        decision = asking.ask(args, conf, 'ExplainClient', lambda client: client.dry_run(spec))
        output.show(args, decision, text=explain.decision_page)
        return 0 if decision['outcome'] == 'placed' else 1
    context = RequestContext(overwrite=False, project_id=args.project)
    servers = [str(uuid.uuid4()) for _ in range(spec.num_instances)]
    spec.instance_uuid = servers[0]
    before = None
    if args.why:
        before = asking.ask(args, conf, 'ExplainClient', lambda client: client.dry_run(spec))
    try:
        selections = asking.ask(
            args,
            conf,
            'SchedulerClient',
            lambda scheduler: scheduler.select_destinations(spec, servers, context=context),
        )
    except errors.NoValidHost as refused:
        return _refused(args, conf, context.request_id, refused)
    shown = [
        {
            'instance_uuid': server,
            'host': chosen.service_host,
            'node': chosen.nodename,
            'node_uuid': chosen.compute_node_uuid,
            'alternates': [alternate.service_host for alternate in alternates],
            **({'why': before} if args.why else {}),
        }
        for server, (chosen, *alternates) in zip(servers, selections, strict=True)
    ]
    output.show(args, shown, None if args.why else COLUMNS, _page if args.why else None)
    return 0


def _refused(args, conf, request_id, refused):
    record = _record(args, conf, request_id)
    if record:
        refused = errors.NoValidHost(record['reason'])  # the answer may leave facts out
    if args.format != output.TABLE:
        document = {'refused': str(refused), 'request_id': request_id}
        output.show(args, document | ({'why': record} if args.why else {}))
        return 1
    output.complain(refused)
    if record and args.why:
        output.show(args, [record], text=explain.decisions_page)
    else:
        output.complain(f"See 'nova-sched-manage explain show {request_id}'.")
    return 1


def _record(args, conf, request_id):
    """The scheduler's record of a refusal, which it writes after its answer; None if there is
    none after RECORD_S."""
    end_s = time.monotonic() + RECORD_S
    while True:
        records = asking.ask(args, conf, 'ExplainClient', lambda client: client.show(request_id))
        if records:
            return {**records[-1], 'time': tables.moment(records[-1]['time'])}
        if time.monotonic() >= end_s:
            return None
        time.sleep(PAUSE_S)


COLUMNS = {
    'Instance': lambda row: row['instance_uuid'],
    'Host': tables.place,
    'Alternates': lambda row: ', '.join(row['alternates']) or '-',
}


def _page(rows):
    return f'{tables.table(COLUMNS, rows)}\n\n{explain.decision_page(rows[0]["why"])}'


VERBS = (
    (
        'place',
        place,
        arguments.add_request,
        option('--dry-run', action='store_true', help='claim nothing'),
        option('--why', action='store_true', help='show the reasons, too'),
        TIMEOUT,
    ),
)
