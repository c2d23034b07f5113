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
"""`claim audit`: contradictions among the recorded claims, and their repair."""

import time

from nova_sched.claims.audit import audit
from nova_sched.claims.findings import UNLISTED
from nova_sched.cmd.manage import store, tables


def look(args, conf):
    """Check that claims and recorded usage agree, and repair them with --fix

    Reads nodes, claims and server groups as of one moment, so schedulers may run at the same time.
    A sound database gives only notes, which are no errors: they will end by themselves, or are for
    information. With --fix, each finding that can be repaired is repaired in a separate
    transaction, and then the audit runs again. The exit status is 1 if an error is left.

    Kinds: drift (a node's use is not that of its claims and unclaimed usage), capacity (more in
    use than there is), orphan (a claim on a node that is gone), duplicate (an instance with two
    pending claims), mark (a claim whose mark as pending in the database is wrong), overdue
    (expired, and not ended), unlisted (confirmed, and not in its node's list of instances), shared
    (a CPU for one guest alone that two have), policy (a server group's hard policy is broken),
    empty-group, open-move, open-resize (not settled for a day), stray (planned for a group that is
    gone), fence (a node is kept for a group without a claim in that domain), outsider (on a node
    that is kept for another group), unfenced (on a node that should be kept for its group, and is
    not).

    Keys with --format json: ok, nodes, claims, groups (how many were checked), findings (kind,
    severity: error or note, problem, found, expected (the two sides of the comparison), repair
    (the effect of --fix, null for nothing), advice, fixed, host, node_uuid, consumer_uuid,
    claim_uuid, group_uuid).
    """
    upkeep = store.upkeep(conf)
    snapshot = upkeep.snapshot()
    found = audit(snapshot, upkeep.now_s())
    if args.wait and any(one.kind == UNLISTED for one in found):
        time.sleep(args.wait)
        before, snapshot = snapshot, upkeep.snapshot()
        found = audit(snapshot, upkeep.now_s(), before)
    left = {one.about for one in found}
    if args.fix and any(one.repair for one in found):
        upkeep.repair(found, upkeep.now_s())
        again = audit(upkeep.snapshot(), upkeep.now_s())
        left = {one.about for one in again}
        known = {one.about for one in found}
        found += [one for one in again if one.about not in known]
    ok = not any(one.is_error and not _is_fixed(one, left) for one in found)
    if args.format == 'json':
        tables.show(tables.as_json(document(snapshot, found, left, ok)))
    else:
        tables.show(page(snapshot, found, left))
    return 0 if ok else 1


def _is_fixed(finding, left):
    """Whether it can be repaired, and is gone."""
    return bool(finding.repair) and finding.about not in left


def document(snapshot, found, left, ok):
    return {
        'ok': ok,
        'nodes': len(snapshot.nodes),
        'claims': len(snapshot.claims),
        'groups': len(snapshot.policies),
        'findings': [
            {
                'kind': one.kind,
                'severity': one.severity,
                'problem': one.words,
                'found': one.found,
                'expected': one.expected,
                'repair': one.repair or None,
                'advice': one.advice or None,
                'fixed': _is_fixed(one, left),
                'host': one.host,
                'node_uuid': one.node_uuid,
                'consumer_uuid': one.consumer_uuid,
                'claim_uuid': one.claim_uuid,
                'group_uuid': one.group_uuid,
            }
            for one in found
        ],
    }


def page(snapshot, found, left):
    """The findings as text."""
    lines = []
    for one in found:
        about = (('host', one.host), ('instance', one.consumer_uuid), ('group', one.group_uuid))
        where = ', '.join(f'{word} {name}' for word, name in about if name)
        lines += [
            f'{one.severity.upper()} {one.kind}: {where}',
            tables.fill(one.words, '  '),
            _outlook(one, left),
            '',
        ]
    counts = (
        (len(snapshot.nodes), 'node'),
        (len(snapshot.claims), 'claim'),
        (len(snapshot.policies), 'server group'),
    )
    wrong = sum(one.is_error for one in found)
    fixed = sum(_is_fixed(one, left) for one in found)
    verdict = f'{tables.count(wrong, "error")}, {tables.count(len(found) - wrong, "note")}'
    verdict += f'; {fixed} repaired' if fixed else ''
    return '\n'.join([*lines, f'{", ".join(tables.count(*one) for one in counts)}: {verdict}.'])


def _outlook(finding, left):
    """The repair of a finding: done, or possible."""
    if _is_fixed(finding, left):
        return tables.fill('repaired', '  -> ')
    return tables.fill(
        f'with --fix, {finding.repair}' if finding.repair else finding.advice, '  -> '
    )


def arguments(parser):
    parser.add_argument(
        '--fix', action='store_true', help='repair the findings that can be repaired'
    )
    parser.add_argument(
        '--wait',
        metavar='SECONDS',
        type=float,
        default=0,
        help='check again after that time if a host does not list a confirmed instance: an '
        'error only if it has reported again since',
    )
