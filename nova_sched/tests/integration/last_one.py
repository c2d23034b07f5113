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
"""Fifty calls at once where exactly 49 fit, again and again: is exactly one refused, each time?

    python -m nova_sched.tests.integration.last_one --database postgresql --schedulers 4 --times
    200

RabbitMQ and the database are private. Rounds are of several shapes, one after the other; after
each round all claims are aborted, and the next is called at once, on the same hosts. Ends with
status 1 if anything is wrong.
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
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.integration import audit, audit_answers, orders, stage
from nova_sched.tests.unit.hardware.builders import machine, pool

CALLS, FIT = 50, 49
LIMIT_S = 120.0

# shape: hosts, CPUs of each, devices of each, policy of the group that all calls are for.
SHAPES = {
    'spread': (49, 1, 0, None),
    'shared': (7, 7, 0, None),
    'alone': (1, 49, 0, None),
    'devices': (7, 50, 7, None),
    'anti-affinity': (49, 50, 0, 'anti-affinity'),
    'affinity': (3, 49, 0, 'affinity'),
}


def run(cloud, schedulers, times, shapes=tuple(SHAPES), limit_s=3600.0, tell=stage.tell):
    """Figures, and what is wrong by shape, of that many rounds."""
    dice, end = random.Random(0), time.monotonic() + limit_s
    daemons = cloud.daemons(schedulers, **stage.DAEMONS)
    for shape in shapes:
        cloud.report(list(_hosts(shape)), traits=[_trait(shape)])
    crowd = cloud.crowd(daemons[0], at_once=(CALLS + 3) // 4)
    faults = {shape: [] for shape in shapes}
    took_s = collections.Counter()
    played = collections.Counter()
    for number in range(times):
        if time.monotonic() > end:
            return {}, {**faults, 'time': [f'it is over after {number} rounds of {times}']}
        shape = shapes[number * len(shapes) // times]
        asked, begin = list(_orders(shape, dice)), time.monotonic()
        answers = crowd.ask(asked, LIMIT_S)
        took_s[shape] += time.monotonic() - begin
        played[shape] += 1
        faults[shape] += [
            f'round {number}: {fault}' for fault in _wrong(cloud.database, asked, answers)
        ]
        crowd.ask(
            [{'abort': one['instances'][0]} for one in answers if one['error'] is None], LIMIT_S
        )
        if number % 20 == 19:
            tell(f'{number + 1} of {times} rounds, {sum(map(len, faults.values()))} faults')
    rates = {shape: f'{CALLS * rounds / took_s[shape]:.0f}' for shape, rounds in played.items()}
    return {'rounds': dict(played), 'decisions a second': rates}, faults


def _trait(shape):
    return f'CUSTOM_{shape.upper().replace("-", "_")}'


def _hosts(shape):
    """Hosts of this shape, which no other's calls may use."""
    hosts, cpus, devices, _ = SHAPES[shape]
    fields = node_fields(machine(pools=[pool(devices, None)])) if devices else {}
    for number in range(hosts):
        yield compute_node(
            f'{shape}-{number}', vcpus=cpus, memory_mb=65536, local_gb=1000, **fields
        )


def _orders(shape, dice):
    """The calls of one round; those of a group do not know of each other."""
    *_, devices, policy = SHAPES[shape]
    group = policy and orders.new_group(policy, dice)
    for number in range(CALLS):
        instance = orders.new_uuid(dice)
        yield orders.order(
            number,
            shape,
            [instance],
            orders.asks(1, devices=min(devices, 1)),
            group and {**group, 'members': [instance]},
            **{f'trait:{_trait(shape)}': 'required'},
        )


def _wrong(database, asked, answers):
    """What is wrong after a round, when nothing but its claims is there."""
    errors = collections.Counter(answer['error'] for answer in answers)
    if errors != {None: FIT, audit_answers.REFUSED: CALLS - FIT}:
        reasons = {answer['reason'] for answer in answers if answer['error']}
        yield f'{dict(errors)}: {"; ".join(sorted(reasons))}'
    claims, nodes = audit.rows(database, 'claims', 'nodes')
    yield from audit.faults(database)
    yield from audit_answers.wrong(asked, answers, claims)
    yield from audit_answers.broken(answers, claims, nodes)


def main():
    parser = stage.arguments(__doc__.splitlines()[0], schedulers=4, times=200)
    parser.add_argument('--shapes', nargs='+', choices=SHAPES, default=tuple(SHAPES))
    chosen = parser.parse_args()
    stage.prepare()
    try:
        with (
            stage.folder(chosen.keep) as home,
            stage.private(chosen.database, home) as (cloud, *_),
        ):
            found = run(cloud, chosen.schedulers, chosen.times, chosen.shapes, chosen.limit)
    except (KeyboardInterrupt, ServerFailed) as error:
        sys.exit(f'ended: {str(error) or "interrupted"}')
    sys.exit(stage.finish(*found))


if __name__ == '__main__':
    main()
