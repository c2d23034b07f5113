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

"""`claim`: the claims of consumers on hosts, and whether claims and recorded usage agree."""

import time

from nova_sched import errors
from nova_sched.claims.audit import audit
from nova_sched.claims.findings import UNLISTED
from nova_sched.claims.maintenance import ClaimMaintenance, StillThere
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import arguments, asking, output, rows, store, tables
from nova_sched.cmd.manage.arguments import TIMEOUT, option
from nova_sched.conf.cluster import reads_nova


def list_claims(args, conf):
    """List claims, oldest first

    A claim is planned (a member of a group that is not created yet), pending (the host was chosen,
    and has not reported the instance) or confirmed (the host has the instance). A claim that is
    not confirmed ends when it expires.

    Keys: claim_uuid, consumer_uuid, host, node, node_uuid, state, move (the
    move that brings the consumer here from another node: resize, migration, live-migration or
    evacuation; null for none), resizing (while the size changes in place: old, new, and cells,
    devices, providers of the new size), resources (amount by class), cells (of the host, with the
    CPUs, memory and page size that the claim holds there), devices (PCI, by kind), providers
    (below the node, with amounts), project_id, user_id, group_uuid, request_id, created_at,
    expires_at.
    """
    known = rows.read_cloud(conf)
    listed = rows.claims(known, SqlClaimStore(store.ready(conf)).claims(args.consumer))
    wanted = {'host': args.host, 'project_id': args.project, 'state': args.state}
    kept = [
        row for row in listed if all(value in (None, row[key]) for key, value in wanted.items())
    ]
    output.show(args, kept, columns(known.now_s))
    return 0


def show(args, conf):
    """Show all about one claim, or about all claims of an instance

    The UUID is that of the claim or of the instance. An instance that moves has a claim on its
    source host and one on its destination. Waits for: the next step, and the component that has to
    do it.

    Keys: for each claim those of 'claim list', and waits_for (null: for
    nothing), counted (the host reports its CPUs and devices as in use), image_properties.
    """
    siblings = ClaimMaintenance(store.ready(conf)).named(args.uuid)
    if not siblings:
        raise errors.ClaimNotFound(args.uuid)
    known = rows.read_cloud(conf)
    chosen = [claim for claim in siblings if args.uuid in (claim.uuid, claim.consumer_uuid)]
    shown = [rows.one_claim(known, claim, siblings) for claim in chosen]
    output.show(args, shown, text=lambda rows: '\n\n'.join(page(row, known.now_s) for row in rows))
    return 0


def create(args, conf):
    """Claim resources of one host for an instance, as a compute node would

    For an instance that was started without the scheduler, or to keep room on a host for a while.
    A running scheduler makes the claim. It is pending, and ends when it expires, unless the host
    reports the instance. A host that lacks the resources refuses.

    Keys: those of 'claim list', for the claim that was made.
    """
    spec, maintenance = arguments.request_spec(args, conf), ClaimMaintenance(store.ready(conf))
    consumer = args.consumer or spec.instance_uuid
    answer = asking.ask(
        args,
        conf,
        'ClaimsClient',
        lambda claims: claims.instance_claim(
            spec, consumer, args.host, args.node or args.host, new=True
        ),
    )
    claims = [claim for claim in maintenance.named(answer.uuid) if claim.uuid == answer.uuid]
    if not claims:  # it has ended since
        raise errors.ClaimNotFound(answer.uuid)
    known = rows.read_cloud(conf)
    shown = rows.claims(known, claims)
    output.show(args, shown, columns(known.now_s))
    return 0


def release(args, conf):
    """End the claims of an instance: on one host, or on all

    For an instance that will not be built, or that is gone without a message. A confirmed claim
    needs --force, because its host still has the instance. As long as it does, the usage counts as
    unclaimed usage.

    Keys: for each claim that has ended those of 'claim list'.
    """
    known = rows.read_cloud(conf)
    nodes = None
    if args.host is not None:
        nodes = [facts.report.node_uuid for facts in known.nodes_of(args.host)]
    where = f' on host {args.host}' if args.host is not None else ''
    try:
        ended = ClaimMaintenance(store.ready(conf)).release(args.consumer, nodes, args.force)
    except StillThere as error:
        hosts = ', '.join(sorted(known.node(uuid).report.host for uuid in error.nodes))
        why = (
            f'the claim on {hosts} is confirmed: the host has the instance; --force ends it anyway'
        )
        raise errors.InvalidRequest('claim release', why) from error
    if not ended:
        raise errors.ClaimNotFound(f'instance {args.consumer}{where}')
    shown = rows.claims(known, ended)
    output.show(args, shown, text=lambda ended: '\n'.join(map(sentence, ended)))
    return 0


def audit_claims(args, conf):
    """Check that claims and recorded usage agree, and repair them with --fix

    Reads nodes, claims and server groups as of one moment, so schedulers may run at the same time.
    A sound database gives only notes, which are not errors: they will end by themselves, or are
    for information. With --fix, each finding that can be repaired is repaired in a separate
    transaction, and then the audit runs again. The exit status is 1 if an error is left.

    Kinds: drift (a node's use is not that of its claims and unclaimed usage), capacity (more in
    use than there is), orphan (a claim on a node that is gone), duplicate (an instance with two
    pending claims), mark (a claim whose mark as pending in the database is wrong), overdue
    (expired, and not ended), unlisted (confirmed, and not in its node's list of instances), shared
    (a CPU for one guest alone that two have), policy (a server group's hard policy is broken),
    empty-group, open-move, open-resize (not settled for a day), moving (to a host that a rebalance
    wants it on, for more than an hour), unclaimed (a rebalance has brought it to a host where it
    has no claim), stray (planned for a group that is
    gone), fence (a node is kept for a group without a claim in that domain), outsider (on a node
    that is kept for another group), unfenced (on a node that should be kept for its group, and is
    not). Where hosts are read from Nova, claims and servers are compared with the allocations in
    Placement, which --fix does not change: leaked (of no server, migration or claim), missing (a
    confirmed claim or a server without allocations on its host), doubled (on two hosts, and no
    migration explains that).

    Keys: ok, nodes, claims, groups (how many were checked), consumers (with allocations in
    Placement; null where hosts report themselves), findings (kind,
    severity: error or note, problem, found, expected (the two sides of the comparison), repair
    (the effect of --fix, null for nothing), advice, fixed, host, node_uuid, consumer_uuid,
    claim_uuid, group_uuid).
    """
    maintenance = ClaimMaintenance(store.ready(conf))
    snapshot = maintenance.snapshot()
    findings = audit(snapshot, maintenance.now_s())
    if args.wait and any(finding.kind == UNLISTED for finding in findings):
        time.sleep(args.wait)
        before, snapshot = snapshot, maintenance.snapshot()
        findings = audit(snapshot, maintenance.now_s(), before)
    left = {finding.about for finding in findings}
    if args.fix and any(finding.repair for finding in findings):
        maintenance.repair(findings, maintenance.now_s())
        again = audit(maintenance.snapshot(), maintenance.now_s())
        left = {finding.about for finding in again}
        known = {finding.about for finding in findings}
        findings += [finding for finding in again if finding.about not in known]
    in_cloud, consumers = _audit_placement(conf, maintenance)
    findings = sorted([*findings, *in_cloud], key=lambda finding: not finding.is_error)
    ok = not any(finding.is_error and not _is_fixed(finding, left) for finding in findings)
    document = audit_document(snapshot, findings, left, ok, consumers)
    output.show(args, document, text=lambda _: audit_page(snapshot, findings, left, consumers))
    return 0 if ok else 1


def _audit_placement(conf, maintenance):
    """The findings about allocations in Placement, and the number of consumers there; None where
    hosts report themselves."""
    if not reads_nova(conf):
        return [], None
    from nova_sched import nova_service  # late: most clouds need it not
    from nova_sched.cloud import audit as cloud_audit

    nova = nova_service.NovaReader(conf)
    findings, cloud = cloud_audit.differences(
        maintenance.snapshot, lambda: cloud_audit.read(nova.cells, nova.api, nova.placement)
    )
    return findings, len(cloud.held)


# Text output.


def columns(now_s):
    return {
        'Consumer': lambda row: row['consumer_uuid'],
        'Host': _place,
        'State': _state,
        'Resources': lambda row: tables.amounts(row['resources']),
        'Project': lambda row: row['project_id'] or '-',
        'Made': lambda row: tables.age(row['created_at'], now_s),
        'Expires': lambda row: tables.until(row['expires_at'], now_s),
    }


def _place(row):
    """The host, and its node if that has another name, as with bare metal."""
    return 'gone' if row['host'] is None else tables.place(row)


def _state(row):
    """The state, and the purpose of the claim if that is not a new instance."""
    return ', '.join(filter(None, (row['state'], row['move'], row['resizing'] and 'resizing')))


def sentence(row):
    """A claim that has ended."""
    amounts = tables.amounts(row['resources'])
    return f'Ended the {row["state"]} claim of {row["consumer_uuid"]} on {_place(row)}: {amounts}.'


def page(row, now_s):
    """All about one claim, a line for each fact that it has."""
    expires = 'never expires'
    if row['expires_at'] is not None:
        expires = f'expires {tables.until(row["expires_at"], now_s)}'
    lines = [
        ('Consumer', row['consumer_uuid']),
        ('Claim', row['claim_uuid']),
        ('Host', _place(row)),
        ('Node', row['node_uuid']),
        ('State', f'{_state(row)}; made {tables.age(row["created_at"], now_s)}, {expires}'),
        ('Waits for', row['waits_for'] or 'nothing'),
        ('Resources', tables.amounts(row['resources'])),
        *_pieces(row),
    ]
    if sizes := row['resizing']:
        lines += [
            ('Old size', tables.amounts(sizes['old'])),
            ('New size', tables.amounts(sizes['new'])),
            *_pieces(sizes),
        ]
    for heading, key in (('Group', 'group_uuid'), ('Project', 'project_id'), ('User', 'user_id'),
                         ('Request', 'request_id')):  # fmt: skip
        lines.append((heading, row[key] or 'none'))
    image = ', '.join(f'{name}={value}' for name, value in row['image_properties'].items())
    lines += [('Image', image)] if image else []
    return '\n'.join(tables.fill(text, f'{heading:12}') for heading, text in lines)


def _pieces(row):
    """Lines for the cells, devices and providers of a claim."""
    for cell in row['cells']:
        cpus = ', '.join(map(str, cell['dedicated_cpus']))
        pages = f' in pages of {cell["page_kb"]} KiB' if cell['page_kb'] else ''
        yield (
            f'Cell {cell["cell"]}',
            f'{cell["memory_mb"]} MiB{pages}' + (f'; CPUs {cpus} alone' if cpus else ''),
        )
    for device in row['devices']:
        near = '' if device['numa_node'] is None else f' near cell {device["numa_node"]}'
        yield 'Devices', f'{device["count"]} of {device["vendor_id"]}:{device["product_id"]}{near}'
    for provider in row['providers']:
        yield 'Provider', f'{provider["provider_uuid"]}: {tables.amounts(provider["resources"])}'


def _is_fixed(finding, left):
    """Whether it can be repaired, and is gone."""
    return bool(finding.repair) and finding.about not in left


def audit_document(snapshot, findings, left, ok, consumers=None):
    return {
        'ok': ok,
        'nodes': len(snapshot.nodes),
        'claims': len(snapshot.claims),
        'groups': len(snapshot.policies),
        'consumers': consumers,
        'findings': [
            {
                'kind': finding.kind,
                'severity': finding.severity,
                'problem': finding.words,
                'found': finding.found,
                'expected': finding.expected,
                'repair': finding.repair or None,
                'advice': finding.advice or None,
                'fixed': _is_fixed(finding, left),
                'host': finding.host,
                'node_uuid': finding.node_uuid,
                'consumer_uuid': finding.consumer_uuid,
                'claim_uuid': finding.claim_uuid,
                'group_uuid': finding.group_uuid,
            }
            for finding in findings
        ],
    }


def audit_page(snapshot, findings, left, consumers=None):
    """The findings as text."""
    lines = []
    for finding in findings:
        about = (
            ('host', finding.host),
            ('instance', finding.consumer_uuid),
            ('group', finding.group_uuid),
        )
        where = ', '.join(f'{word} {name}' for word, name in about if name)
        outlook = f'with --fix, {finding.repair}' if finding.repair else finding.advice
        if _is_fixed(finding, left):
            outlook = 'repaired'
        lines += [
            f'{finding.severity.upper()} {finding.kind}: {where}',
            tables.fill(finding.words, '  '),
            tables.fill(outlook, '  -> '),
            '',
        ]
    counts = [
        (len(snapshot.nodes), 'node'),
        (len(snapshot.claims), 'claim'),
        (len(snapshot.policies), 'server group'),
    ]
    counts += [] if consumers is None else [(consumers, 'consumer')]
    wrong = sum(finding.is_error for finding in findings)
    fixed = sum(_is_fixed(finding, left) for finding in findings)
    verdict = f'{tables.count(wrong, "error")}, {tables.count(len(findings) - wrong, "note")}'
    verdict += f'; {fixed} repaired' if fixed else ''
    return '\n'.join(
        [*lines, f'{", ".join(tables.count(*count) for count in counts)}: {verdict}.']
    )


VERBS = (
    (
        'list',
        list_claims,
        option('--host', metavar='NAME', help='only claims on this host'),
        option('--project', metavar='ID', help='only claims of this project'),
        option('--state', choices=rows.STATES, help='only claims in this state'),
        option('--consumer', metavar='UUID', help='only claims of this instance'),
    ),
    ('show', show, option('uuid', metavar='UUID', help='UUID of the claim, or of the instance')),
    (
        'create',
        create,
        option('host', metavar='HOST', help='name of the host'),
        option('--node', metavar='NAME', help='its node, if that has another name'),
        option('--consumer', metavar='UUID', help='the instance; a new UUID by default'),
        arguments.add_request,
        TIMEOUT,
    ),
    (
        'release',
        release,
        option('consumer', metavar='CONSUMER', help='UUID of the instance'),
        option('--host', metavar='NAME', help='only its claims on this host'),
        option('--force', action='store_true', help='confirmed claims too'),
    ),
    (
        'audit',
        audit_claims,
        option('--fix', action='store_true', help='repair the findings that can be repaired'),
        option(
            '--wait',
            metavar='SECONDS',
            type=float,
            default=0,
            help='check again after that time if a host does not list a confirmed instance: '
            'an error only if it has reported again since',
        ),
    ),
)
