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
"""JsonFilter."""

import json
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.filters.json import MAX_TERMS, JsonFilter
from nova_sched.tests.builders import cluster, hosts, mask_of, request, spec
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each


def seen():
    return hosts(
        vcpus=[4, 8, 8],
        vcpus_used=[1, 8, 2],
        hypervisor_type=['QEMU', None, 'ironic'],
        stats=[{'tier': 'gold', 'size': '7'}, {'tier': 'tin'}, {}],
    )


def asked(query):
    return request(hints={'query': [query if isinstance(query, str) else json.dumps(query)]})


@each(
    'query, mask',
    [
        pytest.param('', '*', id='no text'),
        pytest.param([], '*', id='empty'),
        pytest.param('null', '*', id='null'),
        pytest.param('{}', '*', id='empty mapping'),
        pytest.param(['=', '$vcpus_total', 8], '011', id='equal'),
        pytest.param(['=', '$vcpus_total', 8.0, 8], '011', id='equal to all'),
        pytest.param(['<', '$vcpus_total', 8], '100', id='less'),
        pytest.param(['>', '$vcpus_total', 4], '011', id='more'),
        pytest.param(['<=', '$vcpus_total', 8, 4], '100', id='at most all of them'),
        pytest.param(['>=', '$vcpus_total', 5], '011', id='at least'),
        pytest.param(['>', '$vcpus_total', '$vcpus_used'], '101', id='two attributes'),
        pytest.param(['=', '$vcpus_total', '$vcpus_total'], '111', id='the same twice'),
        pytest.param(['in', '$host', 'host-2', 'host-0'], '101', id='among'),
        pytest.param(['in', '$stats.tier', 'gold', 'tin'], '110', id='a part'),
        pytest.param(
            ['in', 'gold', '$stats.tier', '$hypervisor_type'],
            '100',
            id='a literal among attributes',
        ),
        pytest.param(['=', '$hypervisor_type', 'QEMU'], '100', id='no value: nothing to compare'),
        pytest.param(['=', 1, '$hypervisor_type', 1], '010', id='no value is left out'),
        pytest.param(['=', '$missing', '$missing.part'], '000', id='no such attribute'),
        pytest.param(['=', '$_hosts', '$__class__'], '000', id='nothing of Python'),
        pytest.param(['=', '$', 1], '000', id='no name'),
        pytest.param(['=', '', 1, 1], '111', id='no text is left out'),
        pytest.param(['=', None, 1, 1], '111', id='null is left out'),
        pytest.param(['=', 'x', 'x'], '111', id='literals'),
        pytest.param(['=', 1], '000', id='one value'),
        pytest.param(['='], '000', id='no value'),
        pytest.param(['in', 1], '000', id='among none'),
        pytest.param(['in'], '000', id='nothing among none'),
        pytest.param(['not', ['=', '$vcpus_total', 8]], '100', id='not'),
        pytest.param(
            ['not', ['=', '$vcpus_total', 8], ['=', '$host', 'host-1']], '101', id='not any'
        ),
        pytest.param(['not', '$vcpus_used'], '000', id='not a number'),
        pytest.param(['not', '$missing'], '000', id='not nothing'),
        pytest.param(['not', ['not', ['=', 1, 1]]], '000', id='not a list of one'),
        pytest.param(
            ['and', ['not', ['=', 1, 1]], 1], '111', id='a list of one is true in an and'
        ),
        pytest.param(['and', ['>', '$vcpus_total', 4], ['<', '$vcpus_used', 8]], '001', id='and'),
        pytest.param(['and', '$missing', 1], '111', id='and nothing'),
        pytest.param(['and', '$hypervisor_type', True], '111', id='and nothing on some'),
        pytest.param(['and', 0], '000', id='and zero'),
        pytest.param(['and'], '111', id='and of none'),
        pytest.param(['or', ['=', '$host', 'host-0'], ['=', '$host', 'host-1']], '110', id='or'),
        pytest.param(['or', '$hypervisor_type', 0], '101', id='or nothing'),
        pytest.param(['or'], '000', id='or of none'),
        pytest.param(['and', [], []], '111', id='empty lists'),
        pytest.param(['=', '$stats', {'tier': 'tin'}], '010', id='a mapping'),
        pytest.param(['=', '$updated', True], '111', id='what is asked of each host alone'),
        pytest.param('"="', '000', id='a text is a list of characters'),
        pytest.param('"=aa"', '111', id='and may even hold'),
    ],
)
def test_query(query, mask):
    assert mask_of(JsonFilter, seen(), asked(query)) == mask


def test_no_hint():
    assert mask_of(JsonFilter, seen(), request()) == '*'


@each(
    'query, why',
    [
        pytest.param('{bad json', 'it is not JSON', id='no JSON'),
        pytest.param('[' * 60_000, 'it is not JSON', id='too deep to be read'),
        pytest.param(
            json.dumps(['not', 1] * 1)[:-1] * 400 + ']' * 400, 'it is not JSON', id='no commas'
        ),
        pytest.param('5', 'it is not a list', id='a number'),
        pytest.param('true', 'it is not a list', id='a truth'),
        pytest.param('{"=": 1}', 'it is not a list', id='a mapping'),
        pytest.param('"text"', 'unknown operator', id='a text'),
        pytest.param('[["="]]', 'unknown operator', id='a list as operator'),
        pytest.param('["like", 1, 1]', 'unknown operator', id='no such operator'),
        pytest.param('["and", ["like"], 0]', 'unknown operator', id='one inside'),
        pytest.param('["Not", 1]', 'unknown operator', id='a capital'),
        pytest.param('[">", "$host", 5]', 'not supported between', id='text and number'),
        pytest.param('[">", "x", 5]', 'not supported between', id='literals'),
        pytest.param(
            '["<", 5, "$vcpus_total", "$host"]', 'not supported between', id='on each row'
        ),
        pytest.param(
            '["=", "$host.name", 1]', r'\$host.name asks for a part', id='a part of a text'
        ),
        pytest.param(
            json.dumps(['in', *range(MAX_TERMS + 1)]), 'more than 250 terms', id='too long'
        ),
        pytest.param(
            json.dumps(['=', '$stats' + '.a' * MAX_TERMS, 1]),
            'more than 250 terms',
            id='a path that is too long',
        ),
        pytest.param(
            json.dumps(['and', *(['=', f'$stats{".a" * 100}.{n}', 1] for n in range(3))]),
            'more than 250 terms',
            id='paths that are too long together',
        ),
    ],
)
def test_no_query(query, why):
    for ask in (
        lambda: JsonFilter().mask(seen(), asked(query)),
        lambda: JsonFilter().host_passes(seen().state(0), spec(hints={'query': [query]})),
    ):
        with pytest.raises(
            errors.InvalidRequest, match=f'Invalid request, scheduler hint query: .*{why}'
        ):
            ask()


def test_too_deep_for_what_is_left_of_the_stack():
    query = asked('["not", ' * MAX_TERMS + '1' + ']' * MAX_TERMS)

    def ask(frames):
        return ask(frames - 1) if frames else JsonFilter().mask(seen(), query)

    assert ask(0).tolist() == [False] * 3
    with pytest.raises(errors.InvalidRequest, match='nested too deeply'):
        ask(600)


def test_the_longest_query():
    assert mask_of(JsonFilter, seen(), asked(['in', *['$vcpus_total'] * MAX_TERMS])) == '111'


def test_no_host_is_asked_for_the_rest_of_a_path_that_ends():
    steps = set()

    class Part(dict):
        def get(self, key):
            steps.add(key)

    judged = hosts(1, stats=[Part()])
    assert mask_of(JsonFilter, judged, asked(['=', '$stats.a.b.c', 1])) == '0'
    assert 'a' in steps
    assert steps.isdisjoint({'b', 'c'})


def test_two_queries_are_none():
    with pytest.raises(errors.InvalidRequest, match='scheduler hint query'):
        JsonFilter().mask(seen(), request(hints={'query': ['[]', '[]']}))


@each('query', [['=', '$host', 'x'], ['=', 1, 2], ['>', '$vcpus_total', '$vcpus_used']], ids=str)
def test_no_hosts(query):
    assert mask_of(JsonFilter, hosts(0), asked(query)) == ''


# Why.


@each(
    'query, rows, why',
    [
        pytest.param(
            ['>=', '$vcpus_total', 16],
            [0, 1, 2],
            "3 of 3 hosts fail the query's condition on vcpus_total, which is 4 to 8",
            id='a number',
        ),
        pytest.param(
            ['>=', '$vcpus_total', 16],
            [1],
            "the host fails the query's condition on vcpus_total, which is 8",
            id='of one host',
        ),
        pytest.param(
            ['and', ['=', '$vcpus_used', 1], ['=', '$stats.tier', 'lead'], ['=', 1, 1]],
            [0, 1, 2],
            "3 of 3 hosts fail the query's condition on stats",
            id='the condition that most hosts fail',
        ),
        pytest.param(
            ['and', ['=', '$host', 'host-1'], ['=', '$stats.tier', 'gold']],
            [0],
            "the host fails the query's condition on host",
            id='the condition that this host fails',
        ),
        pytest.param(
            ['or', ['=', '$stats.tier', 'lead'], ['=', '$host', 'host-7']],
            [0, 1],
            "2 of 2 hosts fail the query's condition on host, stats",
            id='several attributes, no name of a host',
        ),
        pytest.param(
            ['=', '$host-7', 1],
            [0],
            "the host fails the query's condition",
            id='an attribute that is none',
        ),
        pytest.param(
            ['=', 1, 2],
            [0, 2],
            "2 of 2 hosts fail the query's condition",
            id='nothing of the host',
        ),
        pytest.param(['or'], [0], "the host fails the query's condition", id='an empty condition'),
    ],
)
def test_why(query, rows, why):
    assert JsonFilter().why(seen(), asked(query), np.array(rows)) == why


def test_what_a_claim_takes_is_seen_at_once():
    made = cluster(2, vcpus=4)
    query = asked(['>=', '$vcpus_used', 3])
    assert mask_of(JsonFilter, made.hosts, query) == '00'
    made.consume(made.hosts.nodes[1], request(vcpus=3))
    assert mask_of(JsonFilter, made.hosts, query) == '01'


# Against a plain reading of the rule, host by host.

RELATIONS = {
    '=': operator.eq,
    '<': operator.lt,
    '>': operator.gt,
    '<=': operator.le,
    '>=': operator.ge,
}
terms = st.recursive(
    st.sampled_from(
        [
            '$vcpus_total',
            '$vcpus_used',
            '$hypervisor_type',
            '$stats.tier',
            '$stats.size',
            '$host',
            '$nope',
        ]
    )
    | st.sampled_from([0, 4, 8, 1.5, True, None, '', 'QEMU', 'gold', '7', 'host-1']),
    lambda inner: st.builds(
        lambda name, parts: [name, *parts],
        st.sampled_from([*RELATIONS, 'in', 'not', 'or', 'and', 'and', 'or']),
        st.lists(inner, max_size=3),
    ),
    max_leaves=12,
)
queries = terms.filter(lambda term: isinstance(term, list))


def plain(term, state):
    """What a term comes to on one host."""
    if isinstance(term, str) and term.startswith('$'):
        name, *path = term[1:].split('.')
        value = getattr(state, name, None)
        for key in path:
            value = value.get(key)
        return value
    if not isinstance(term, list):
        return None if term == '' else term
    name, *parts = term
    values = [value for value in (plain(part, state) for part in parts) if value is not None]
    if name == 'not':
        return [not value for value in values]
    if name in ('or', 'and'):
        return {'or': any, 'and': all}[name](values)
    if len(values) < 2:
        return False
    if name == 'in':
        return values[0] in values[1:]
    found = [RELATIONS[name](values[0], other) for other in values[1:]]
    return all(found)


@settings(max_examples=cases(150))
@given(query=queries)
def test_each_host_is_judged_as_if_it_were_alone(query):
    made = seen()
    states = [made.state(row) for row in range(3)]
    try:
        found = [plain(query, state) for state in states]
    except TypeError:
        with pytest.raises(errors.InvalidRequest):
            JsonFilter().mask(made, asked(query))
        return
    passes = [any(value) if isinstance(value, list) else value for value in found]
    assert JsonFilter().mask(made, asked(query)).tolist() == passes
    for state, wanted in zip(states, passes, strict=True):
        assert (
            JsonFilter().host_passes(state, spec(hints={'query': [json.dumps(query)]})) is wanted
        )
    refused = [row for row in range(3) if not passes[row]]
    for rows in ([refused] if refused else []) + [[row] for row in refused]:
        why = JsonFilter().why(made, asked(query), np.array(rows))
        assert "fail the query's condition" in why or "fails the query's condition" in why
