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
"""The audit at the end of a simulation."""

import types

from nova_sched.claims import Placement
from nova_sched.extensions.simulator import session
from nova_sched.tests import builders
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.extensions.simulator.builders import GIB, node

A, B, C = map(uuid_of, 'abc')


def account(host, *holders, used=2, capacity=8):
    return session.Account(host, {'VCPU': used}, {'VCPU': capacity}, frozenset(holders))


def running(host, *instances):
    return types.SimpleNamespace(host=host, instances=dict.fromkeys(instances))


@table(
    'accounts, nodes, faults',
    {
        'nothing': ([], [], []),
        'all is well': ([account('x', A, B)], [running('x', A, B)], []),
        'exactly full': ([account('x', used=8)], [running('x')], []),
        'full': ([account('x', used=9)], [running('x')], ['x is over its capacity: VCPU 9 of 8']),
        'a class that the node has not': (
            [session.Account('x', {'CUSTOM_GPU': 1}, {'VCPU': 8}, frozenset())],
            [],
            ['x is over its capacity: CUSTOM_GPU 1 of 0'],
        ),
        'no claim': (
            [account('x')],
            [running('x', A)],
            [f'server {A} runs on x, but its claims are on nothing'],
        ),
        'claim elsewhere': (
            [account('x'), account('y', A)],
            [running('x', A), running('y')],
            [f'server {A} runs on x, but its claims are on y'],
        ),
        'two claims': (
            [account('x', A), account('y', A)],
            [running('x', A), running('y')],
            [f'server {A} runs on x, but its claims are on x, y'],
        ),
        'claim of nobody': (
            [account('x', A, C)],
            [running('x', A)],
            [f'server {C} runs nowhere, but has claims on x'],
        ),
    },
)
def test_faults(accounts, nodes, faults):
    assert session.audit(accounts, nodes) == faults


def test_accounts_from_a_store():
    store = MemoryClaimStore()
    facts = builders.report(
        'x', vcpus=8, vcpus_used=3, memory_mb=4096, memory_mb_reserved=512, disk_gb=None
    )
    store.report([facts], now_s=1.0)
    claim = builders.claim(A, facts.node_uuid, vcpus=2, memory_mb=1024)
    assert store.commit([Placement((claim,))])[0].won
    (found,) = session.stored_accounts(store)
    assert (found.host, found.holders) == ('x', {A})
    assert dict(found.used) == {'VCPU': 5, 'MEMORY_MB': 1024}
    assert found.capacity == {'VCPU': 8, 'MEMORY_MB': 3584}


def test_accounts_from_what_the_scheduler_answered():
    one = node('a', 'b', vcpus=8)
    answers = {
        one.host: {
            'claims': {A: 'confirmed', B: 'confirmed', C: 'pending'},
            'foreign': {'VCPU': 1},
        }
    }
    hosts = types.SimpleNamespace(nodes={one.host: one}, answers=answers)
    (found,) = session.answered_accounts(hosts)
    assert (found.host, found.holders) == (one.host, {A, B, C})
    assert dict(found.used) == {'VCPU': 3, 'MEMORY_MB': 2 * GIB}
    assert found.capacity['VCPU'] == 8
