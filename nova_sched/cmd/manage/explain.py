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

"""`explain`: why requests were placed where they were, or refused."""

import textwrap

from nova_sched import errors
from nova_sched.cmd.manage import arguments, asking, output, store, tables
from nova_sched.cmd.manage.arguments import SHADOW, TIMEOUT, option
from nova_sched.db.decision_log import SqlDecisionLog


def dry_run(args, conf):
    """Decide a request on a running scheduler without claiming anything

    The request is built from the options, or read from a file with --spec. NUMA cells and PCI
    devices are computed by Nova's API: only a spec from a file has them.

    The tables show for each filter how many hosts it saw and left, and why it removed hosts. For
    the chosen host and its alternates they show the weight by each weigher.

    Keys: outcome (placed or refused), reason, hosts, instances, found, filters
    (filter, seen, left, why, removed, nearest, nearest_why), placed (instance_uuid, host, node,
    weight, weights (weigher, raw, normalised, multiplier, weight), alternates (the same)).
    """
    spec = arguments.request_spec(args, conf)
    decision = _ask(args, conf, lambda scheduler: scheduler.dry_run(spec))
    output.show(args, decision, text=decision_page)
    return 0


def why_not(args, conf):
    """Show the verdict of each rule of a running scheduler on one host

    Every rule is evaluated, even after one that refuses. A host that passes all of them is
    compared with the best one.

    Keys: host, service (disabled, disabled_reason, forced_down, seen_s), nodes
    (node, passes, rules (rule, verdict: passes, refuses, not asked or fails, why); and of a node
    that passes: rank, of, weight, weights, best (host, node, weight, weights)).
    """
    spec = arguments.request_spec(args, conf)
    verdicts = _ask(args, conf, lambda scheduler: scheduler.why_not(spec, args.host))
    output.show(args, verdicts, text=host_page)
    return 0


def capacity(args, conf):
    """Show how many more servers like this one fit, from a running scheduler

    Counted as if they came one after the other and nothing else changed. A host in several zones
    or aggregates counts in each. Rules that evaluate each host separately, such as plug-ins that
    were written for Nova, are evaluated for the first server only.

    Keys: total, at_least (true if a limit ended the count),
    hosts, zones (name to number), aggregates (id, name, total).
    """
    spec = arguments.request_spec(args, conf)
    room = _ask(args, conf, lambda scheduler: scheduler.capacity(spec))
    output.show(args, room, text=capacity_page)
    return 0


def show(args, conf):
    """Show the outcome of a request, and the reasons

    Read from the database. It keeps refusals for [explain] retention seconds, and of the other
    decisions up to [explain] per_second and most_placed. The request id is in each line of the
    log, and in the answer of Nova's API as X-Openstack-Request-Id.

    Keys: of each decision about the request request_id, time, asked (instances,
    flavor, resources, extra_specs, image, zone, policy, project_id, user_id), attempts,
    took_ms (from the queue to the answer), of a refusal for_tenants (the reason without facts
    about the cloud), and those of 'explain dry-run'.
    """
    log = SqlDecisionLog(store.ready(conf))
    records = log.read(args.request_id)
    if not records:
        raise errors.NotFound(f'A decision about request {args.request_id}')
    for record in records:
        record['time'] = tables.moment(record['time'])
    output.show(args, records, text=lambda shown: decisions_page(shown, log.now_s()))
    return 0


def list_decisions(args, conf):
    """List decisions about requests, newest first

    Read from the database, as 'explain show' does: refusals are kept for [explain] retention
    seconds, and of the other decisions up to [explain] per_second and most_placed.

    Keys: request_id, time, outcome (placed or refused), reason, instances, found, flavor,
    project_id, user_id.
    """
    log = SqlDecisionLog(store.ready(conf))
    since_s = 0 if args.since is None else log.now_s() - args.since
    listed = []
    for record in log.newest_first(since_s, args.refused):
        refused, request = record['outcome'] == 'refused', record['asked']
        if (args.refused and not refused) or args.project not in (None, request['project_id']):
            continue
        listed.append(
            {
                'request_id': record['request_id'],
                'time': tables.moment(record['time']),
                **{name: record[name] for name in ('outcome', 'reason', 'instances', 'found')},
                **{name: request[name] for name in ('flavor', 'project_id', 'user_id')},
            }
        )
        if len(listed) == args.limit:
            break
    output.show(args, listed, DECISIONS)
    return 0


def _ask(args, conf, question):
    kind = 'ShadowExplainClient' if args.shadow else 'ExplainClient'
    return asking.ask(args, conf, kind, question)


# Text output.

MAX_ROWS = 100  # decisions in a list
WHY = 64  # columns of a reason in a table
NAMED = 3  # removed hosts in a table

FILTERS = {
    'Filter': lambda row: row['filter'],
    'Seen': lambda row: row['seen'],
    'Left': lambda row: row['left'],
    'Why it removed hosts': lambda row: _why(row),
    'Removed': lambda row: _removed(row),
}
RULES = {
    'Rule': lambda row: row['rule'],
    'Verdict': lambda row: row['verdict'],
    'Why': lambda row: textwrap.fill(row['why'], WHY),
}


def decision_page(decision):
    """The actual or possible outcome of a request."""
    instances = tables.count(decision['instances'], 'instance')
    if decision['reason']:
        lines = [tables.fill(f'{instances}, refused: {decision["reason"]}')]
    else:
        lines = [f'{instances}, placed. {tables.count(decision["hosts"], "host")} in all.']
    removing = [step for step in decision['filters'] if step['seen'] > step['left']]
    if removing:
        lines += ['', tables.table(FILTERS, removing)]
    lines += _others(
        'Removed none: ', [step['filter'] for step in decision['filters'] if step not in removing]
    )
    if decision['placed']:
        lines += ['', tables.table(PLACED, decision['placed'])]
    weighed = [placed for placed in decision['placed'] if placed.get('weights')]
    if weighed:
        lines += ['', _weighed([weighed[0], *weighed[0]['alternates']])]
    return '\n'.join(lines)


def _others(heading, names):
    """Rules that need no separate line."""
    return [tables.fill(', '.join(names), heading)] if names else []


def _why(step):
    text = step['why']
    if step['nearest'] and step['seen'] - step['left'] > 1:
        text += f'; nearest is {step["nearest"]}'
    return textwrap.fill(text, WHY)


def _removed(step):
    gone = step['seen'] - step['left']
    named = step['removed'][:NAMED]
    more = [f'{gone - len(named)} more'] if gone > len(named) else []
    return '\n'.join([*named, *more])


PLACED = {
    'Instance': lambda row: row['instance_uuid'],
    'Host': tables.place,
    'Weight': lambda row: _figure(row.get('weight')),
    'Alternates': lambda row: ', '.join(map(tables.place, row['alternates'])) or '-',
}


def _weighed(candidates):
    """The weight of each candidate by each weigher, best first: raw -> normalised, and times the
    multiplier."""
    columns = {'Weigher (raw -> 0..1 x multiplier)': lambda row: row[0]}
    for number, candidate in enumerate(candidates):
        name = tables.place(candidate)
        heading = f'{name} (again)' if name in columns else name
        columns[heading] = lambda row, number=number: row[1 + number]
    rows = [
        (weight['weigher'], *(_weight(candidate, place) for candidate in candidates))
        for place, weight in enumerate(candidates[0]['weights'])
    ]
    sums = ('sum', *(_figure(candidate.get('weight')) for candidate in candidates))
    return tables.table(columns, [*rows, sums])


def _weight(candidate, place):
    weights = candidate.get('weights') or ()
    if place >= len(weights):
        return '-'
    weight = weights[place]
    parts = (_figure(weight[name]) for name in ('raw', 'normalised', 'multiplier', 'weight'))
    return '{} -> {} x {} = {}'.format(*parts)


def _figure(value):
    if value is None:
        return '-'
    return f'{value:.0f}' if float(value).is_integer() else f'{value:.4g}'


DECISIONS = {
    'Request': lambda row: row['request_id'],
    'Time': lambda row: row['time'],
    'Project': lambda row: row['project_id'] or '-',
    'Flavor': lambda row: row['flavor'] or '-',
    'Instances': lambda row: row['instances'],
    'Outcome': lambda row: row['outcome'],
    'Reason': lambda row: textwrap.fill(row['reason'] or '-', WHY),
}


def host_page(host):
    """The verdict of each rule on a host."""
    lines = [f'Host {host["host"]}, {tables.service(host["service"])}']
    for node in host['nodes']:
        if node['passes']:
            verdict = (
                f'passes: place {node["rank"]} of {tables.count(node["of"], "node")} that pass'
            )
        else:
            refusing = [
                rule['rule'] for rule in node['rules'] if rule['verdict'] in ('refuses', 'fails')
            ]
            verdict = f'does not pass: {", ".join(refusing)}'
        telling = [rule for rule in node['rules'] if rule['verdict'] != 'passes']
        lines += ['', f'Node {node["node"]} {verdict}']
        lines += [tables.table(RULES, telling)] if telling else []
        lines += _others(
            'Passes: ', [rule['rule'] for rule in node['rules'] if rule not in telling]
        )
        if node.get('weights'):
            best = node['best']
            me = {'host': host['host'], 'node': node['node'], **node}
            lines += ['', _weighed([me] if node['rank'] == 1 else [me, best])]
    return '\n'.join(lines)


def capacity_page(room):
    """How many more instances fit, and where."""
    least = 'at least ' if room['at_least'] else ''
    lines = [f'{least}{room["total"]} more, on {tables.count(room["hosts"], "host")}.']
    for heading, rows in (
        ('Zone', sorted(room['zones'].items())),
        (
            'Aggregate',
            [
                (f'{aggregate["name"]} ({aggregate["id"]})', aggregate['total'])
                for aggregate in room['aggregates']
            ],
        ),
    ):
        if rows:
            columns = {heading: lambda row: row[0], 'Fit': lambda row: row[1]}
            lines += ['', tables.table(columns, rows)]
    return '\n'.join(lines)


def decisions_page(records, now_s=None):
    """The kept records of a request, decision by decision; with their ages at ``now_s``, by the
    clock of the schedulers."""
    return '\n\n'.join(_record(record, now_s) for record in records)


def _record(record, now_s):
    request = record['asked']
    age = '' if now_s is None else f', {tables.age(record["time"], now_s)}'
    lines = [
        f'Request     {record["request_id"]}',
        f'Decided     {record["time"]}{age}',
        f'Asked for   {tables.amounts(request["resources"])} (flavor {request["flavor"]})',
        f'Project     {request["project_id"] or "-"}',
    ]
    more = [f'{key}={value}' for key, value in sorted(request['extra_specs'].items())]
    more += [f'zone {request["zone"]}'] if request['zone'] else []
    more += [f'server group with {request["policy"]}'] if request['policy'] else []
    lines += [tables.fill(', '.join(more), 'With        ')] if more else []
    return '\n'.join([*lines, '', decision_page(record)])


ASKED = (arguments.add_request, TIMEOUT, SHADOW)
VERBS = (
    (
        'list',
        list_decisions,
        option('--refused', action='store_true', help='only refusals'),
        option(
            '--since',
            metavar='TIME',
            type=arguments.span,
            help='only of the last seconds, or 15m, 2h, 7d',
        ),
        option('--project', metavar='ID', help='only of this project'),
        arguments.limit(MAX_ROWS),
    ),
    ('dry-run', dry_run, *ASKED),
    ('why-not', why_not, option('host', metavar='HOST', help='name of the host'), *ASKED),
    ('capacity', capacity, *ASKED),
    ('show', show, option('request_id', metavar='REQUEST', help='the request id, req-…')),
)
