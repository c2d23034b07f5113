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
"""Which records of decisions go where."""

import types

import pytest

from nova_sched.engine.cycle import Order
from nova_sched.engine.explain.decision_log import PLACED, REFUSED, pass_on
from nova_sched.tests.builders import request
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.world import World

DETAILS = {'reason': 'full'}


class Told:
    """Keeps what it is told."""

    def __init__(self):
        self.found = []

    def refused(self, context, make):
        self.found.append((context.request_id, make()))


@each(
    'outcome, request_id, retention_s, kept, told',
    [
        pytest.param(REFUSED, 'req-1', 60.0, 1, 1, id='a refusal'),
        pytest.param(PLACED, 'req-1', 60.0, 1, 0, id='a placement'),
        pytest.param(REFUSED, None, 60.0, 0, 1, id='a refusal without an id'),
        pytest.param(REFUSED, 'req-1', 0.0, 0, 1, id='without a decision log'),
    ],
)
def test_pass_on(outcome, request_id, retention_s, kept, told):
    context = World(explain_retention_s=retention_s).context
    context.events = Told()
    order = Order([request()], context=types.SimpleNamespace(request_id=request_id))
    pass_on(context, context.settings(), order, outcome, lambda: DETAILS)
    context.decision_log.flush()
    records = context.decision_log.show(request_id)
    assert (len(records), len(context.events.found)) == (kept, told)
    for one in (*records, *(record for _, record in context.events.found)):
        assert (one['outcome'], one['reason']) == (outcome, 'full')


def test_none_are_told_by_default():
    context = World().context
    order = Order([request()], context=types.SimpleNamespace(request_id='req-1'))
    pass_on(context, context.settings(), order, REFUSED, lambda: DETAILS)
    context.decision_log.flush()
    assert len(context.decision_log.show('req-1')) == 1
