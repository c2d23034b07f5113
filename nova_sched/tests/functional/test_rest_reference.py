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
"""The reference of the REST API in the manual has all that the OpenAPI document has."""

import importlib.util
import itertools
from pathlib import Path

import pytest

from nova_sched.api import document

SOURCE = Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'rest_reference.py'


@pytest.fixture(scope='module')
def reference():
    spec = importlib.util.spec_from_file_location('rest_reference', SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_operation_and_schema_has_a_section(reference):
    lines = reference.rst(document.DOCUMENT)
    sections = {text for text, below in itertools.pairwise(lines) if set(below) == {'-'}}
    operations = {f'{one.method.upper()} {one.path}' for one in document.OPERATIONS.values()}
    assert sections == operations | document.DOCUMENT['components']['schemas'].keys()


def test_an_operation_has_its_parameters_and_answers(reference):
    said = {
        'summary': 'A *thing*',
        'parameters': [
            {'name': 'n', 'in': 'query', 'schema': {'type': 'integer', 'minimum': 1}},
        ],
        'responses': {'200': {'description': 'It is `there`.'}},
    }
    text = '\n'.join(reference.operation('/things', 'get', said, []))
    for words in ('GET /things', r'A \*thing\*.', '``n``', 'integer; at least 1', '``there``'):
        assert words in text


@pytest.mark.parametrize(
    'schema, words',
    [
        pytest.param({'type': ['string', 'null']}, 'string or null', id='two types'),
        pytest.param(
            {'type': 'array', 'items': {'type': 'string'}}, 'array of string', id='array'
        ),
        pytest.param({'$ref': '#/x/Plan'}, ':ref:`Plan <rest-schema-plan>`', id='named'),
        pytest.param({'type': 'string', 'enum': ['a', 'b']}, 'string: ``a``, ``b``', id='values'),
        pytest.param({}, 'any', id='any'),
    ],
)
def test_kind(reference, schema, words):
    assert reference.kind(schema) == words
