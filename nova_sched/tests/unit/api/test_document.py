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
"""The served document is the stored one, and the code next to it says the same."""

import jsonschema

from nova_sched.api import document, handlers
from nova_sched.api.document import DOCUMENT, OPERATIONS
from nova_sched.extensions.optimize.rest import RebalanceHandlers
from nova_sched.extensions.queues.rest import QueueHandlers
from nova_sched.groups import template
from nova_sched.objects import top_group
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.backend import Manager, group, member
from nova_sched.tests.unit.api.callers import rest

SCHEMAS = DOCUMENT['components']['schemas']


def test_it_is_served(http):
    served = http.get('/v1/openapi.json').json
    assert served.pop('servers') == [{'url': 'http://localhost'}]
    assert served == DOCUMENT


def test_the_schema_of_templates_is_served(http):
    answer = http.get('/v1/schema')
    assert answer.mimetype == 'application/schema+json'
    assert answer.json == template.schema()
    jsonschema.Draft202012Validator.check_schema(answer.json)


@each(
    'kind, tag',
    [
        (handlers.VersionHandlers, 'service'),
        (handlers.GroupHandlers, 'groups'),
        (QueueHandlers, 'queues'),
        (RebalanceHandlers, 'rebalances'),
    ],
)
def test_a_handler_for_each_operation_and_no_other(kind, tag):
    operations = {name for name, one in OPERATIONS.items() if one.tag == tag}
    assert {name for name in vars(kind) if not name.startswith('_')} == operations


@each('path, key', [('/', 'versions'), ('/v1', 'version'), ('/v1/', 'version')])
def test_versions(http, path, key):
    found = http.get(path).json[key]
    one = found[0] if key == 'versions' else found
    assert (one['id'], one['status']) == ('v1.0', 'CURRENT')
    assert one['links'][0] == {'rel': 'self', 'href': 'http://localhost/v1/'}
    assert http.get(one['links'][1]['href']).json['openapi']


def test_health(http):
    for kind in ('application/json', 'text/plain'):
        answer = http.get('/healthcheck', headers={'Accept': kind})
        assert (answer.status_code, answer.mimetype) == (200, kind)


def test_health_that_an_operator_has_taken_away(conf, backend, tmp_path):
    from oslo_middleware import opts
    from werkzeug.test import Client

    for name, options in opts.list_opts_healthcheck():
        conf.register_opts(options, group=name)
    conf.set_override('backends', ['disable_by_file'], group='healthcheck')
    file = tmp_path / 'away'
    conf.set_override('disable_by_file_path', str(file), group='healthcheck')
    http = Client(rest(conf, backend, Manager()))
    assert http.get('/healthcheck').status_code == 200
    file.touch()
    assert http.get('/healthcheck').status_code == 503


def test_the_schemas_are_those_of_the_objects():
    """A field that an object gains is no secret by mistake."""
    fields = {'Status': top_group.GroupStatusField, 'State': top_group.MemberStateField}
    for name, field in fields.items():
        assert sorted(SCHEMAS[name]['enum']) == sorted(field().valid_values)
    for name, thing in (('Group', group()), ('Member', member())):
        assert set(SCHEMAS[name]['properties']) - {'links'} == set(thing.fields)


RENEWAL, DESCRIPTION = (
    {'$ref': f'#/components/schemas/{name}'} for name in ('Renewal', 'Description')
)


@each(
    'schema, value, where',
    [
        ({'type': 'integer'}, 3, None),
        ({'type': 'integer'}, 'x', ''),
        (RENEWAL, {'ttl': 5}, None),
        (RENEWAL, {'ttl': 'x'}, 'ttl'),
        (DESCRIPTION, {'template': 'x', 'flavors': {'f': 1}}, 'flavors.f'),
    ],
)
def test_what_is_wrong_with_a_value(schema, value, where):
    fault = document.fault(schema, value)
    assert (fault and fault[0]) == where
