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
"""Whatever is given: a Definition that keeps its promises and the schema, or a TemplateError."""

import json
import re

import hypothesis
import jsonschema
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.groups import template
from nova_sched.groups.definition import Definition
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.groups.template import FLAVORS, IMAGES

VALIDATOR = jsonschema.Draft202012Validator(template.schema())
NAMES = st.sampled_from(['a', 'b', 'r', 'g', 'h', 'o', 'n', 'x', 'g/a', 'r/1', '%index%', ''])
MEMBERS = st.sampled_from(['a', 'b', 'r', 'h', {'get_resource': 'a'}])
ODD = st.sampled_from(
    [None, True, 0, -1, 2, 1.5, 'rack', [], {}, [1], {'get_file': 'x'}, {'x': 1}]
)


def calls(inner):
    """Functions, of what may stand inside of them."""
    paths = st.lists(NAMES | inner, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({'get_param': st.sampled_from(['p', 'q', 'n']) | paths}),
        st.fixed_dictionaries({'get_resource': NAMES}),
        st.fixed_dictionaries({'get_attr': paths}),
        st.fixed_dictionaries(
            {'if': st.tuples(st.sampled_from(['yes', 'no', 'c', True]), inner, inner)}
        ),
        st.fixed_dictionaries({'list_join': st.tuples(st.just('-'), st.lists(inner, max_size=3))}),
        st.fixed_dictionaries(
            {
                'repeat': st.fixed_dictionaries(
                    {
                        'template': inner,
                        'for_each': st.dictionaries(
                            NAMES, st.lists(inner, max_size=3), max_size=2
                        ),
                    }
                )
            }
        ),
        st.fixed_dictionaries(
            {
                'str_replace': st.fixed_dictionaries(
                    {'template': NAMES, 'params': st.dictionaries(NAMES, inner, max_size=2)}
                )
            }
        ),
        st.fixed_dictionaries({'equals': st.tuples(inner, inner)}),
    )


VALUES = st.recursive(
    NAMES | ODD, lambda inner: calls(inner) | st.lists(inner, max_size=2), max_leaves=4
)


def oddly(strategy):
    """Rarely something else in its place."""
    return st.integers(0, 99).flatmap(lambda number: VALUES if number == 7 else strategy)


def mapping(needed, /, **optional):
    """A mapping that may lack some keys, rarely a needed one."""
    return st.fixed_dictionaries(
        {key: oddly(value) for key, value in needed.items()},
        optional={key: oddly(value) for key, value in optional.items()},
    )


LEVEL = st.sampled_from(template.LEVELS)
PREFERRED = {'weight': st.sampled_from([0.5, 1, '2'])}
POLICY = st.one_of(
    mapping({'type': st.sampled_from(['affinity', 'exclusive']), 'level': LEVEL}, **PREFERRED),
    mapping(
        {'type': st.just('anti-affinity'), 'level': LEVEL},
        max_per_domain=st.integers(1, 3),
        **PREFERRED,
    ),
    mapping(
        {'type': st.just('spread'), 'level': LEVEL, 'max_skew': st.integers(1, 3)},
        min_domains=st.integers(1, 3),
        required=st.just(False),
    ),
)
SIDE = NAMES | st.lists(NAMES, max_size=2)
SIDES = st.sampled_from([['a', 'b'], ['b', 'r'], ['a', 'g'], ['x', 'y'], ['h', 'r/1']])
RELATION = mapping(
    {
        'type': st.sampled_from(['near', 'apart']),
        'level': LEVEL,
        'between': SIDES | st.tuples(SIDE, SIDE),
    },
    **PREFERRED,
)
FLAVOR = st.sampled_from(['small', 'large']) | mapping(
    {'vcpus': st.integers(1, 4), 'ram': st.integers(1, 999)}, disk=st.just(1)
)
HINT = st.sampled_from(
    ['z', 'z-%index%', {'get_param': ['p', 0]}, {'if': ['yes', 'z', {'get_file': 'x'}]}]
)
SERVER = st.fixed_dictionaries(
    {
        'type': st.just('OS::Nova::Server'),
        'properties': mapping(
            {'flavor': FLAVOR},
            image=st.sampled_from(['ubuntu', 'other']),
            availability_zone=HINT,
            scheduler_hints=st.dictionaries(st.sampled_from(['x', 'y']), oddly(HINT), max_size=2),
            block_device_mapping_v2=st.lists(
                st.fixed_dictionaries(
                    {'boot_index': oddly(st.integers(-1, 1)), 'image': oddly(st.just('ubuntu'))}
                ),
                max_size=1,
            ),
        ),
    }
)


def typed(kind, properties):
    return st.fixed_dictionaries({'type': oddly(st.just(kind)), 'properties': oddly(properties)})


def groups(definition):
    """Resources that hold other ones."""
    inline = st.builds(
        lambda name, inner: {'name': name, **inner}, st.sampled_from(['x', 'y']), definition
    )
    members = st.lists(MEMBERS | inline, max_size=3)
    more = {
        'policies': st.lists(POLICY, max_size=2),
        'relations': st.lists(RELATION, max_size=1),
        'overlay': oddly(st.just(False)),
    }
    return st.one_of(
        typed('OS::NovaSched::Group', mapping({'members': members}, **more)),
        typed(
            'OS::Heat::ResourceGroup',
            mapping({'resource_def': definition, 'count': st.integers(0, 3)}),
        ),
        typed(
            'OS::Heat::AutoScalingGroup',
            mapping(
                {
                    'resource': definition,
                    'min_size': st.integers(0, 2),
                    'max_size': st.integers(2, 3),
                }
            ),
        ),
    )


REPEATED = st.deferred(lambda: groups(SERVER | GROUP))
GROUP = st.deferred(lambda: groups(SERVER))
PARAMETERS = {
    'p': {'type': 'comma_delimited_list', 'default': 'a,b'},
    'q': {'type': 'json', 'default': {'a': ['x', 1]}},
    'n': {'type': 'number', 'default': 2},
}
PARAMETER = mapping(
    {'type': st.sampled_from(['string', 'number', 'json', 'comma_delimited_list', 'boolean'])},
    default=VALUES,
    constraints=st.lists(
        st.dictionaries(
            st.sampled_from(['length', 'range', 'modulo', 'allowed_values']), VALUES, max_size=2
        )
    ),
)
TEMPLATE = st.fixed_dictionaries(
    {
        'heat_template_version': st.just('wallaby'),
        'parameters': oddly(st.just(PARAMETERS)),
        'conditions': oddly(
            st.just({'yes': True, 'no': {'not': 'yes'}, 'c': {'equals': [{'get_param': 'n'}, 2]}})
        ),
        'resources': st.fixed_dictionaries(
            {'a': SERVER, 'b': SERVER},
            optional={
                'r': REPEATED,
                'g': GROUP,
                'h': GROUP,
                'n': typed('OS::NovaSched::Relation', RELATION),
                'o': typed(
                    'OS::NovaSched::Group',
                    mapping({'members': st.lists(NAMES, max_size=2), 'overlay': st.just(True)}),
                ),
                's': typed('OS::Nova::ServerGroup', st.just({'policies': ['soft-affinity']})),
                'v': oddly(st.just({'type': 'OS::Cinder::Volume'})),
            },
        ),
    },
    optional={'outputs': VALUES},
)


def check(source):
    """The Definition, whose promises hold; None if it was refused."""
    try:
        found = template.read(source, flavors=FLAVORS, images=IMAGES, max_members=50)
    except errors.TemplateError:
        return None
    members = set(found.members)
    for path, inner in found.groups.items():
        assert [*inner] == [member for member in found.members if member.startswith(f'{path}/')]
    for policy in found.policies:
        assert policy.a
        assert {*policy.a, *policy.b} <= members
        assert not {*policy.a} & {*policy.b}
    assert len({policy.name for policy in found.policies}) == len(found.policies)
    assert Definition.from_plain(json.loads(json.dumps(found.to_plain()))) == found
    return found


@hypothesis.settings(
    max_examples=cases(100), deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(
    TEMPLATE
    | st.fixed_dictionaries(
        {
            'heat_template_version': st.just('pike'),
            'parameters': st.fixed_dictionaries({'p': PARAMETER}),
        }
    )
)
def test_a_template_is_read_or_refused(source):
    """As text it means the same; what is read keeps the schema, but for what is repeated 0
    times."""
    text = json.dumps(source)
    found = check(source)
    assert check(text) == found
    if found is not None and not re.search(r'\b0\b', text):
        VALIDATOR.validate(json.loads(text))


@hypothesis.settings(max_examples=cases(100), deadline=None)
@hypothesis.given(
    st.text() | st.binary() | st.text(st.sampled_from('{}[]&*!|>%@:,-#?"\'\\ \n\tab1~<'))
)
def test_garbage_is_refused(source):
    assert check(source) is None


@hypothesis.settings(max_examples=cases(100), deadline=None)
@hypothesis.given(TEMPLATE, st.data())
def test_a_damaged_text_is_read_or_refused(source, data):
    text = json.dumps(source, indent=1)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    damaged = text[:start] + data.draw(st.text(max_size=5)) + text[end:]
    assert isinstance(check(damaged), Definition | None)
