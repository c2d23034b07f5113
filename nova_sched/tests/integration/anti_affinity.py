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
"""Anti-affinity boots of many groups at many schedulers: is any policy broken, and what does that
cost?

    python -m nova_sched.tests.integration.anti_affinity --schedulers 4 --boots 10000 --groups 1000

RabbitMQ and the database are private. Slices of group members and as many plain boots take turns,
so that both rates are of one run. Ends with status 1 if anything was wrong.
"""

import collections
import random
import sys
import time

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.functional.harness import compute_node
from nova_sched.tests.integration import audit, audit_answers, orders, stage

POLICY, PLAIN = 'anti-affinity', 'plain'
HOSTS = 200
SLICES, SMALLEST = 20, 100  # of each kind, and how many boots one has at least


def run(cloud, schedulers, boots, groups, callers=64, limit_s=3600.0, tell=stage.tell):
    """Figures, and what is wrong by what it is about."""
    end = time.monotonic() + limit_s
    daemons = cloud.daemons(schedulers, **stage.DAEMONS)
    room = 4 * boots // HOSTS + 1  # twice of what all together ask for
    sizes = {'vcpus': room, 'memory_mb': room * 1024, 'local_gb': room * 10}
    cloud.report([compute_node(f'host-{number}', **sizes) for number in range(HOSTS)])
    crowd = cloud.crowd(daemons[0], at_once=callers // 4)
    slices = _slices(boots, groups)
    asked, took_s = [one for some in slices for one in some], collections.Counter()
    for number, some in enumerate(slices):
        begin = time.monotonic()
        crowd.ask(some, end - begin)
        took_s[some[0]['kind']] += time.monotonic() - begin
        if number % 4 == 3:
            tell(f'{len(crowd.answers):,} of {len(asked):,} answered')
        if time.monotonic() > end:
            break
    answers = list(crowd.answers)
    claims, nodes = audit.rows(cloud.database, 'claims', 'nodes')
    refused = [one for one in answers if one['error'] == audit_answers.REFUSED]
    faults = {
        'audit': audit.faults(cloud.database),
        'answers': list(audit_answers.wrong(asked, answers, claims)),
        'policies': list(audit_answers.broken(answers, claims, nodes)),
        'refusals': [
            f'{one["kind"]} {one["number"]} was refused: {one["reason"]}' for one in refused
        ],
    }
    return _figures(answers, took_s), faults


def _slices(boots, groups):
    """The orders, slice by slice: members and plain boots take turns at being first."""
    members, plain = list(_members(boots, groups)), _plain(boots)
    size, found = max(SMALLEST, -(-boots // SLICES)), []
    for number, start in enumerate(range(0, boots, size)):
        pair = [members[start : start + size], plain[start : start + size]]
        found += pair[:: 1 - 2 * (number % 2)]
    return found


def _members(boots, groups):
    """Members of a group come one right after the other: those who place them see nothing of each
    other."""
    dice, each = random.Random(0), boots // groups
    for number in range(groups):
        group = orders.new_group(POLICY, dice)
        members = [orders.new_uuid(dice) for _ in range(each)]
        # A conductor may know of all members, or only of the one that it places.
        names = [members if number % 2 else [member] for member in members]
        for place, member in enumerate(members):
            yield _order(number * each + place, POLICY, member, {**group, 'members': names[place]})


def _plain(boots):
    dice = random.Random(1)
    return [_order(boots + number, PLAIN, orders.new_uuid(dice)) for number in range(boots)]


def _order(number, kind, instance, group=None):
    return orders.order(number, kind, [instance], orders.asks(1), group)


def _figures(answers, took_s):
    counts = collections.Counter(answer['kind'] for answer in answers)
    rates = {kind: counts[kind] / took_s[kind] for kind in counts}
    return {
        'boots': dict(counts),
        'a second': {kind: round(rate) for kind, rate in rates.items()},
        'of the plain rate': f'{rates[POLICY] / rates[PLAIN]:.2f}' if len(rates) == 2 else '-',
    }


def main():
    parser = stage.arguments(
        __doc__.splitlines()[0], schedulers=4, callers=64, boots=10_000, groups=1000
    )
    chosen = parser.parse_args()
    if chosen.groups < 1 or chosen.boots % chosen.groups:
        parser.error('--boots must be a multiple of --groups: each group has as many members')
    stage.prepare()
    try:
        with (
            stage.folder(chosen.keep) as home,
            stage.private(chosen.database, home) as (cloud, *_),
        ):
            found = run(
                cloud, chosen.schedulers, chosen.boots, chosen.groups, chosen.callers, chosen.limit
            )
    except (KeyboardInterrupt, ServerFailed) as error:
        sys.exit(f'ended: {str(error) or "interrupted"}')
    sys.exit(stage.finish(*found))


if __name__ == '__main__':
    main()
