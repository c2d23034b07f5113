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
"""The trace of a request through the loop, from its wait to its answer."""

import pytest

from nova_sched import errors
from nova_sched.engine.cycle import Order
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.unit.engine.world import World, rules
from nova_sched.tracing import TRACER, Parent

PARENT = Parent(7, 9)


@pytest.fixture
def ended(monkeypatch):
    found = []
    monkeypatch.setattr(TRACER, 'sink', found.append)
    return found


def decided(parent=PARENT, **words):
    made = World(chain=rules([], []))
    made.report(*(report(f'host-{row}', vcpus=4) for row in range(3)))
    with TRACER.following(parent):
        placement = made.scheduler.begin_place([request(instance_uuid=uuid_of('a'), **words)])
    made.turn_until(placement.future)
    return placement.future


def test_a_placed_request(ended):
    decided(vcpus=1).result()
    (trace,) = ended
    assert (trace.trace_id, trace.parent.span_id, trace.failure) == (7, 9, '')
    assert trace.attributes == {'instances': 1, 'request_id': ''}
    assert [span.name for span in trace.spans] == ['wait', 'decide', 'commit', 'answer']
    wait, decide, commit, answer = trace.spans
    assert trace.begin_s == wait.begin_s <= wait.end_s == decide.begin_s <= decide.end_s
    assert decide.end_s <= commit.begin_s <= commit.end_s <= answer.begin_s <= trace.end_s
    assert ('ResourceCapacity', 3, 3) in decide.events
    assert commit.attributes == {'requests': 1, 'won': True}


def test_a_refused_request(ended):
    with pytest.raises(errors.NoValidHost):
        decided(vcpus=9).result()
    (trace,) = ended
    assert 'ResourceCapacity' in trace.failure
    assert {span.name for span in trace.spans} == {'wait', 'decide'}
    assert ('ResourceCapacity', 3, 0) in trace.spans[1].events


def test_a_request_that_is_not_traced(ended):
    decided(parent=Parent(7, 9, is_sampled=False), vcpus=1).result()
    assert ended == []


def test_an_order_without_a_trace_has_none():
    assert Order([request()]).trace is None
