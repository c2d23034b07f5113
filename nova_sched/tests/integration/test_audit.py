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
"""The audit finds databases that were changed on purpose."""

import pytest

from nova_sched.claim import CONFIRMED
from nova_sched.claims import Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine, schema
from nova_sched.tests.builders import NOW, claim, report, still, uuid_of
from nova_sched.tests.integration import audit
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, told, wanted
from nova_sched.tests.unit.hardware.builders import request as device

A, B = map(uuid_of, 'ab')
HAS = machine(cell(0, [], range(4), pages=[(2048, 8)], memory_mb=4096), pools=[pool(1, x='1')])
PAIR = HAS.fit(wanted(dedicated(2, memory_mb=8, pagesize_kb=2048)))
REST = HAS.hold(PAIR).fit(wanted(dedicated(2, memory_mb=8, pagesize_kb=2048)))
NIC = HAS.fit(wanted(requests=[device(1)]))
EMULATOR = HAS.fit(wanted(dedicated(1, memory_mb=8), emulator='isolate'))
MORE_PAGES = (
    machine(cell(0, [], range(4), pages=[(2048, 99)]))
    .hold(PAIR)
    .fit(wanted(dedicated(2, memory_mb=10, pagesize_kb=2048)))
)


@pytest.fixture
def url(tmp_path):
    return f'sqlite:///{tmp_path}/claims.sqlite'


@pytest.fixture
def store(url):
    made = engine.create(url)
    schema.upgrade(made)
    yield SqlClaimStore(made, still)
    made.dispose()


@pytest.mark.parametrize(
    'reported, parts, faults',
    [
        pytest.param(HAS, [PAIR, REST], [], id='nothing'),
        pytest.param(HAS, [PAIR, NIC], [], id='CPUs and a device'),
        pytest.param(
            HAS,
            [PAIR, EMULATOR],
            [
                "2 claims hold ('cpu', 0)",
                "2 claims hold ('cpu', 1)",
                "2 of ('cpu', 0) are given, and 1 are free",
                "2 of ('cpu', 1) are given, and 1 are free",
            ],
            id='one CPU for two, one of them for an emulator',
        ),
        pytest.param(
            HAS.hold(PAIR),
            [PAIR],
            [
                "1 of ('cpu', 0) are given, and 0 are free",
                "1 of ('cpu', 1) are given, and 0 are free",
            ],
            id='CPUs that the node has in use for somebody else',
        ),
        pytest.param(HAS.hold(PAIR), [REST], [], id='others'),
        pytest.param(
            HAS,
            [PAIR, MORE_PAGES],
            ["9 of ('pages', 0, 2048) are given, and 8 are free"],
            id='pages',
        ),
        pytest.param(HAS, [NIC, NIC], ["2 of ('device', '8086'"], id='a device for two'),
    ],
)
def test_parts(url, store, reported, parts, faults):
    store.report([report(**told(reported))], NOW)
    for number, some in enumerate(parts):
        place(store, claim(uuid_of(str(number)), uuid_of('node host-0'), parts=some))
    found = audit.faults(url)
    assert len(found) == len(faults)
    assert all(any(words in fault for fault in found) for words in faults)


def test_what_the_node_has_counted_is_not_counted_again(url, store):
    store.report([report(**told(HAS))], NOW)
    place(store, claim(A, uuid_of('node host-0'), parts=PAIR, state=CONFIRMED))
    for _ in range(2):  # the second one is evidently newer than the claim
        store.report([report(vcpus_used=1, memory_mb_used=512, **told(HAS.hold(PAIR)))], NOW)
    assert audit.faults(url) == []
    place(store, claim(B, uuid_of('node host-0'), parts=PAIR))
    assert len(audit.faults(url)) == 4


def place(store, one):
    """Without a generation, so that nothing is judged but amounts."""
    assert store.commit([Placement((one,))])[0].won
