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
"""Traces: which requests have one, what continues what, and what a message says of it."""

import uuid

import pytest

from nova_sched.tests.rows import each
from nova_sched.tracing import KEY, OSPROFILER, Parent, Tracer, read

TEXT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
PARENT = Parent(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
BASE, SPAN = str(uuid.uuid4()), str(uuid.uuid4())


def tracer(share=0.0, chance=0.5):
    made, ended = Tracer(share, chance=lambda: chance), []
    made.sink = ended.append
    return made, ended


@each(
    'context, parent',
    [
        pytest.param({KEY: TEXT}, PARENT, id='traced'),
        pytest.param({KEY: TEXT[:-1] + '0'}, PARENT._replace(is_sampled=False), id='not traced'),
        pytest.param({KEY: '01' + TEXT[2:] + '-more'}, PARENT, id='of a later version'),
        pytest.param({KEY: TEXT + '-more'}, None, id='too long for its version'),
        pytest.param({KEY: 'ff' + TEXT[2:]}, None, id='of no version'),
        pytest.param({KEY: f'00-{"0" * 32}-b7ad6b7169203331-01'}, None, id='without a trace'),
        pytest.param({KEY: TEXT.upper()}, None, id='in upper case'),
        pytest.param({KEY: 7}, None, id='no text'),
        pytest.param({}, None, id='none'),
        pytest.param(
            {OSPROFILER: {'base_id': BASE, 'parent_id': SPAN}},
            Parent(uuid.UUID(BASE).int, uuid.UUID(SPAN).int & (1 << 64) - 1),
            id='of osprofiler',
        ),
        pytest.param({OSPROFILER: {'base_id': BASE}}, None, id='half of osprofiler'),
        pytest.param({OSPROFILER: {'base_id': 7, 'parent_id': []}}, None, id='of other types'),
        pytest.param({OSPROFILER: 'text'}, None, id='no mapping of osprofiler'),
        pytest.param(
            {KEY: TEXT, OSPROFILER: {'base_id': BASE, 'parent_id': SPAN}}, PARENT, id='both'
        ),
    ],
)
def test_the_context_of_a_message(context, parent):
    assert read(context) == parent


def test_a_context_as_text():
    assert PARENT.text == TEXT
    assert PARENT._replace(is_sampled=False).text == TEXT[:-1] + '0'


@each(
    'share, chance, traced',
    [
        pytest.param(0.0, 0.0, False, id='none'),
        pytest.param(0.5, 0.4, True, id='below the share'),
        pytest.param(0.5, 0.5, False, id='at the share'),
        pytest.param(1.0, 0.999, True, id='all'),
    ],
)
def test_a_share_of_the_requests_is_traced(share, chance, traced):
    made, _ = tracer(share, chance)
    assert (made.begin('call') is not None) == traced


@each('is_sampled, share', [(True, 0.0), (False, 1.0)])
def test_what_the_caller_says_counts(is_sampled, share):
    made, _ = tracer(share)
    with made.following(PARENT._replace(is_sampled=is_sampled)):
        trace = made.begin('call')
    assert (trace is not None) == is_sampled
    if trace is not None:
        assert (trace.trace_id, trace.parent) == (PARENT.trace_id, PARENT)
    assert made.parent is None


def test_nothing_without_a_sink():
    made = Tracer(1.0)
    with made.following(PARENT):
        assert (made.begin('call'), made.parent) == (None, None)
    with made.traced('work') as trace:
        assert trace is None


def test_calls_from_a_traced_block_continue_it():
    made, ended = tracer(1.0)
    with made.traced('work', members=3) as trace:
        assert made.parent == trace.place == Parent(trace.trace_id, trace.span_id)
        with made.traced('inner') as inner:
            assert inner.parent == trace.place
    assert [one.name for one in ended] == ['inner', 'work']
    assert (trace.attributes, trace.failure, made.parent) == ({'members': 3}, '', None)


@each(
    'error, failure',
    [pytest.param(ValueError('no'), 'no'), pytest.param(ValueError(), 'ValueError')],
)
def test_a_block_that_fails(error, failure):
    made, ended = tracer(1.0)
    with pytest.raises(ValueError), made.traced('work'):
        raise error
    assert ended[0].failure == failure


@each('parent', [None, PARENT])
def test_the_same_request_once_more(parent):
    made, _ = tracer(1.0)
    with made.following(parent):
        first = made.begin('call')
    second = first.again()
    assert second.trace_id == first.trace_id
    assert second.parent == (parent or first.place)
    assert second.span_id != first.span_id
