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

"""Decisions that a caller sees, by its rights and its project, how many are read for them, and
how they are drawn."""

import types

import flask
import pytest
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.engine.explain.decision_log import PLACED, REFUSED
from nova_sched.extensions.dashboard import decisions
from nova_sched.extensions.dashboard.decisions import THIN, WIDTH, funnel, stacks
from nova_sched.extensions.dashboard.parts import Parts
from nova_sched.tests.unit.extensions.dashboard.test_queues import Policy


def record(project_id, outcome=REFUSED):
    asked = {'project_id': project_id, 'flavor': 'tiny', 'instances': []}
    return {
        'request_id': 'req-1',
        'time': 0.0,
        'outcome': outcome,
        'reason': 'for operators',
        'instances': 1,
        'asked': asked,
        'placed': [],
    }


class Log:
    """The records of each request, and others without end; counts those."""

    def __init__(self, records=()):
        self.records, self.count = records, 0

    def now_s(self):
        return 1.0

    def read(self, request_id):
        return self.records

    def newest_first(self, refused=False):
        while True:
            self.count += 1
            yield record('red')


def pages(log, *rules):
    sources = types.SimpleNamespace(decisions=log)
    return decisions.DecisionPages(Parts(None, Policy(*rules), None, sources))


@pytest.mark.parametrize(
    'mine, project_id, outcome, is_seen',
    [
        ('red', 'red', REFUSED, True),
        ('red', 'red', PLACED, False),
        ('red', 'blue', REFUSED, False),
        ('red', None, REFUSED, False),
        (None, None, REFUSED, False),
    ],
)
def test_a_caller_without_the_right_to_see_all(mine, project_id, outcome, is_seen):
    with flask.Flask('test').test_request_context('/', method='POST', data={'host': 'a'}):
        flask.g.context = RequestContext(project_id=mine)
        made = pages(Log([record(project_id, outcome)]), decisions.RULE, decisions.ASK)
        for ask in (made._seen, made.why_not):
            if not is_seen:
                with pytest.raises(errors.NotFound):
                    ask('req-1')
        if is_seen:
            assert len(made._seen('req-1')) == 1


def test_no_more_is_read_than_is_shown(monkeypatch):
    monkeypatch.setattr(flask, 'render_template', lambda *_, rows, **__: rows)
    log = Log()
    with flask.Flask('test').test_request_context('/'):
        flask.g.context = RequestContext(project_id='red')
        assert len(pages(log, decisions.RULE).show()) == decisions.MAX_SHOWN
    assert log.count == decisions.MAX_SHOWN


def step(name, seen, left):
    return {'filter': name, 'seen': seen, 'left': left}


def candidate(host, *weights, alternates=()):
    named = [{'weigher': f'W{number}', 'weight': weight} for number, weight in enumerate(weights)]
    total = sum(weight or 0 for weight in weights)
    return {'host': host, 'weight': total, 'weights': named, 'alternates': list(alternates)}


def test_a_funnel():
    found = funnel({'hosts': 1000, 'filters': [step('A', 1000, 1000), step('B', 1000, 1)]})
    assert found['idle'] == ['A']
    (one,) = found['steps']
    assert (one['gone'], one['seen_width'], one['left_width']) == (999, WIDTH, THIN)
    (last,) = funnel({'hosts': 2, 'filters': [step('A', 2, 0)]})['steps']
    assert last['left_width'] == 0


def test_nothing_was_weighed():
    for placed in ([], [{'host': 'a', 'alternates': []}]):
        assert stacks(placed) is None
    assert stacks([candidate('a', 0.0)])['rows'][0]['bars'] == []


def test_stacks():
    found = stacks([candidate('a', 1.0, -1.0, alternates=[candidate('b', 0.5, None)])])
    best, other = found['rows']
    assert found['zero'] == WIDTH / 2
    assert [(bar['x'], bar['width']) for bar in best['bars']] == [(500, 500), (0, 500)]
    assert [(bar['x'], bar['width']) for bar in other['bars']] == [(500, 250)]
    assert [name for name, _ in found['legend']] == ['W0', 'W1']
