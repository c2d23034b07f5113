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
"""The JSON schema takes the examples, and refuses what is wrong in form."""

import jsonschema
import pytest

from nova_sched.groups import template
from nova_sched.groups.template import VERSIONS, source, values
from nova_sched.groups.template.functions import FUNCTIONS
from nova_sched.tests.unit.groups.template import group, relation, repeated, server
from nova_sched.tests.unit.groups.template.test_examples import EXAMPLES, NAMES

VALIDATOR = jsonschema.Draft202012Validator(template.schema())


def test_it_is_a_schema():
    VALIDATOR.check_schema(template.schema())


@pytest.mark.parametrize('name', NAMES)
def test_an_example_keeps_it(name):
    text = (EXAMPLES / f'{name}.yaml').read_text('utf-8')
    VALIDATOR.validate(values.to_plain(source.parse(text)))


@pytest.mark.parametrize(
    'resource',
    [
        pytest.param(server(flavor=None, image=[1]), id='image'),
        pytest.param({'type': 'OS::Nova::Server'}, id='no flavor'),
        pytest.param(server(flavor={'vcpu': 1}), id='flavor'),
        pytest.param(repeated(-1), id='negative count'),
        pytest.param(repeated(1, {'typ': 'x'}), id='repeated nothing'),
        pytest.param(group('a', policies=[{'type': 'afinity', 'level': 'rack'}]), id='policy'),
        pytest.param(
            group('a', policies=[{'type': 'affinity', 'level': 'rack', 'weight': 0}]), id='weight'
        ),
        pytest.param(group({'name': 'x'}), id='inline member'),
        pytest.param(relation('near'), id='no sides'),
        pytest.param({'type': 'OS::Neutron::Net', 'propertys': {}}, id='key'),
        pytest.param({}, id='no type'),
    ],
)
def test_a_resource_that_it_refuses(resource):
    assert not VALIDATOR.is_valid(
        {'heat_template_version': 'wallaby', 'resources': {'r': resource}}
    )


def test_it_knows_the_versions_and_the_functions():
    schema = template.schema()
    assert schema['properties']['heat_template_version']['enum'] == list(VERSIONS)
    assert list(schema['$defs']['call']['properties']) == list(FUNCTIONS)


def test_who_changes_it_changes_a_copy():
    template.schema().clear()
    assert template.schema()['type'] == 'object'
