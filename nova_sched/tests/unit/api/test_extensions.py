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
"""What extensions add to the API, and what becomes of one that adds nonsense."""

import pytest
from werkzeug.test import Client

from nova_sched import extension
from nova_sched.api import app, document, policies
from nova_sched.cmd import api
from nova_sched.extension import Extension
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.backend import Backend, Manager
from nova_sched.tests.unit.api.callers import ADMIN, configuration, rest

SAID = {'operationId': 'count_all', 'tags': ['counts'], 'responses': {'200': {}}}


def offering(**offers):
    """An Extension whose methods return these values, or raise them."""

    def method(value):
        def offer(self, *args):
            if isinstance(value, Exception):
                raise value
            return value(*args) if callable(value) else value

        return offer

    return type('Offering', (Extension,), {name: method(one) for name, one in offers.items()})()


@pytest.fixture
def installed(monkeypatch):
    """Have these extensions, and no others, installed."""

    def install(**extensions):
        monkeypatch.setattr(extension, 'installed', lambda: extensions)

    return install


def test_a_part_of_the_document(installed):
    installed()
    alone = document._whole()
    installed(counts=offering(document={'paths': {'/v1/counts': {'get': SAID}}, 'tags': [7]}))
    whole = document._whole()
    assert whole['paths'] == {**alone['paths'], '/v1/counts': {'get': SAID}}
    assert whole['tags'] == [*alone['tags'], 7]


def test_what_the_core_says_stays(installed):
    installed()
    alone = document._whole()
    own = {'/v1/groups': {'get': SAID, 'put': SAID}}
    schemas = {'schemas': {'Group': {}, 'Count': {}}}
    installed(greedy=offering(document={'paths': own, 'components': schemas}))
    whole = document._whole()
    groups = alone['paths']['/v1/groups']
    assert whole['paths']['/v1/groups'] == {**groups, 'put': SAID}
    known = alone['components']['schemas']
    assert whole['components']['schemas'] == {**known, 'Count': {}}


@each('part', [RuntimeError('no document'), None, {'paths': 7}])
def test_a_part_that_cannot_be_read(installed, part, caplog):
    installed()
    alone = document._whole()
    installed(odd=offering(document=part))
    assert document._whole() == alone
    assert 'The extension odd' in caplog.text


@each(
    'said',
    [
        {},
        {**SAID, 'tags': []},
        {**SAID, 'parameters': [{'$ref': '#/no/such'}]},
        {**SAID, 'requestBody': 7},
        7,
    ],
)
def test_an_operation_that_makes_no_sense_is_left_out(said, caplog):
    paths = {'/v1/odd': {'get': said}, '/v1/counts': {'get': SAID}}
    assert list(dict(document._operations({'paths': paths}))) == ['count_all']
    assert 'GET /v1/odd cannot be served as the document says' in caplog.text


def test_rights(installed):
    def wrong(rule):
        return [rule('counts:show', 'rule:admin', 'Count.', 'no_such_operation')]

    def taken(rule):
        return [
            rule('groups:list', '@', 'Everything.', ('GET', '/v1/groups')),
            rule('counts:show', 'rule:admin', 'Count.', ('GET', '/v1/counts')),
        ]

    installed()
    alone = [(one.name, one.check_str) for one in policies.list_rules()]
    installed(wrong=offering(policies=wrong), taken=offering(policies=taken))
    found = [(one.name, one.check_str) for one in policies.list_rules()]
    assert found == [*alone, ('nova_sched:counts:show', 'rule:admin')]


@pytest.mark.parametrize('handlers', [RuntimeError('no handlers'), None, {'queues': object()}])
def test_operations_without_handlers_are_left_out(installed, handlers, caplog):
    installed(odd=offering(handlers=handlers))
    http = rest(configuration(), Backend(), Manager())
    assert Client(http).get('/v1/groups', headers=ADMIN).status_code == 200
    assert Client(http).get('/v1/flavors', headers=ADMIN).status_code == 404
    assert 'The operation list_flavors has no handler; it is left out' in caplog.text


def test_paths_of_the_core():
    own = '', '/', '/v1', '/v1/groups', '/healthcheck'
    assert [path for path in (*own, '/v10', '/dashboard') if api.OWN_PATHS.match(path)] == [*own]


def test_an_application_at_a_path_of_the_core_is_left_out(installed, monkeypatch, caplog):
    monkeypatch.setattr(app, 'make', lambda _: None)
    monkeypatch.setattr(api, 'is_alone', lambda _: False)
    installed(odd=offering(applications={'/v1/groups': 1, '/shop': 2}))
    assert api.everything(configuration(), None).mounts == {'/shop': 2}
    assert 'An extension cannot serve /v1/groups' in caplog.text
