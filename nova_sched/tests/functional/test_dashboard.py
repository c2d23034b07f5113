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

"""The pages over the daemon's bus and database: what they show, to whom, and what they refuse."""

import importlib.metadata
import json
import re

import pytest
import werkzeug.test
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.api.document import OPERATIONS
from nova_sched.conf import register_opts
from nova_sched.db import engine as db_engine
from nova_sched.db.limits import DatabaseLimits
from nova_sched.extensions.dashboard import app
from nova_sched.extensions.dashboard.parts import Clients
from nova_sched.rpc.client import QueuesClient
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import TIMEOUT_S, eventually, spec
from nova_sched.tests.functional.test_api import managed, template
from nova_sched.tests.unit.api.callers import configuration

TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')
PAGES = ('/cluster', '/decisions', '/what-if', '/groups', '/queues', '/schedulers')
OF_PROJECTS = ('/decisions', '/groups', '/queues')


class Browser:
    """One session of a caller; paths are below the dashboard."""

    def __init__(self, served):
        self._client = werkzeug.test.Client(served)
        self.token = None

    def get(self, path, **words):
        return self._client.get(path, base_url='http://localhost/', buffered=True, **words)

    def post(self, path, form=(), **headers):
        words = {name.replace('_', '-'): value for name, value in headers.items()}
        form = {'csrf_token': self.token or '', **dict(form)}
        return self._client.post(path, base_url='http://localhost/', data=form, headers=words)

    def log_in(self, user, project):
        self.token = TOKEN.search(self.get('/login').text)[1]
        answer = self.post('/login', {'user': user, 'project': project})
        assert answer.status_code == 303, answer.text
        self.token = TOKEN.search(self.get('/groups').text)[1]
        return self


def made(started, source='reports'):
    """The dashboard; ``source`` is that of [cluster]."""
    clients = Clients(
        started.groups, QueuesClient(started.bus, timeout_s=TIMEOUT_S), started.explain
    )
    conf = configuration()
    register_opts(conf)
    conf.set_override('login_rate', '', group='dashboard')
    conf.set_override('source', source, group='cluster')
    times = DatabaseLimits.of(conf.database_limits)
    database = f'sqlite:///{started.database}'
    return app.make(conf, clients, lambda: db_engine.for_command(database, times))


@pytest.fixture(scope='module')
def served(started, tmp_path_factory):
    with managed(started.bus, tmp_path_factory.mktemp('queues')):
        yield made(started)


@pytest.fixture
def operator(served):
    return Browser(served).log_in('admin', 'operators')


@pytest.fixture
def project(served):
    return Browser(served).log_in('ann', 'red')


@pytest.fixture
def hosts(daemon):
    daemon.add('a', 'b', instances=[])
    return ['a', 'b']


def refused(daemon, project_id='red', **words):
    """A refused request, with its record: its id."""
    request_id = f'req-{uuid_of(project_id)}'
    asked = spec(vcpus=100000, project_id=project_id, **words)
    context = _context(request_id, project_id)
    with pytest.raises(errors.NoValidHost, match=r'enough hosts'):
        daemon.scheduler.select_destinations(asked, [uuid_of('x')], context=context)
    eventually(lambda: daemon.explain.show(request_id))
    return request_id


def _context(request_id, project_id):
    return RequestContext(request_id=request_id, project_id=project_id, overwrite=False)


def test_a_caller_without_a_session_logs_in_first(served):
    answer = Browser(served).get('/cluster?host=a')
    assert answer.status_code == 303
    assert answer.headers['Location'].endswith('/login?next=/cluster?host%3Da')


def test_a_part_of_a_page_leads_to_the_login(served):
    answer = Browser(served).get('/decisions', headers={'HX-Request': 'true'})
    assert (answer.status_code, answer.headers['HX-Redirect']) == (204, '/login')


def test_headers_of_a_request_are_no_login(served):
    headers = {'X-Auth-Token': 'admin:x', 'X-Roles': 'admin', 'X-Project-Id': 'x'}
    assert Browser(served).get('/cluster', headers=headers).status_code == 303


@pytest.mark.parametrize('path', PAGES)
def test_an_operator_sees_every_page(operator, hosts, path):
    answer = operator.get(path)
    assert answer.status_code == 200, answer.text
    assert 'aria-current="page"' in answer.text


@pytest.mark.parametrize('path', PAGES)
def test_a_project_sees_its_own_pages(project, hosts, path):
    answer = project.get(path)
    assert answer.status_code == (200 if path in OF_PROJECTS else 403)


@pytest.mark.parametrize('path', [*PAGES, '/login', '/static/style.css', '/nothing'])
def test_nothing_inline_and_nothing_from_elsewhere(operator, hosts, path):
    answer = operator.get(path)
    assert "default-src 'none'" in answer.headers['Content-Security-Policy']
    assert answer.headers['X-Frame-Options'] == 'DENY'
    if 'html' in answer.content_type:
        assert not re.search(r'<style|\sstyle=|\son[a-z]+=|<script(?! src)', answer.text)
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', answer.text)


@pytest.mark.parametrize(
    'path, form',
    [
        ('/cluster/host/service', {'name': 'a', 'disabled': 'yes'}),
        ('/what-if', {'vcpus': 1, 'ram': 1}),
        ('/groups/try', {'template': '{}'}),
        ('/schedulers/audit', {}),
        ('/logout', {}),
        ('/login', {'user': 'admin', 'project': 'x'}),
    ],
)
def test_a_form_needs_its_token(operator, path, form):
    for token in ('', 'x', 'ü'):
        assert operator.post(path, {**form, 'csrf_token': token}).status_code == 403
    assert operator.post(path, form, Origin='http://evil.example').status_code == 403


def test_another_name_of_this_machine_is_refused(served):
    answer = werkzeug.test.Client(served).get('/login', base_url='http://evil.example/')
    assert answer.status_code == 403


def test_the_session_is_kept_from_scripts_and_other_sites(served):
    answer = Browser(served).get('/login')
    assert {'HttpOnly', 'SameSite=Strict'} <= set(answer.headers['Set-Cookie'].split('; '))


def test_a_host_is_disabled_and_enabled(operator, project, daemon, hosts):
    form = {'name': 'a', 'disabled': 'yes', 'reason': '<b>fan</b>'}
    assert project.post('/cluster/host/service', form).status_code == 403
    answer = operator.post('/cluster/host/service', form)
    assert 'state disabled' in answer.text
    assert '&lt;b&gt;fan&lt;/b&gt;' in answer.text
    assert '<b>fan' not in answer.text
    answer = operator.post('/cluster/host/service', {'name': 'a', 'disabled': 'no'})
    assert 'state up' in answer.text
    assert operator.post('/cluster/host/service', {'name': 'a'}).status_code == 400


def test_a_host_that_is_read_from_nova(started, hosts):
    operator = Browser(made(started, 'nova')).log_in('admin', 'operators')
    page = operator.get('/cluster/host?name=a').text
    assert ('state unknown' in page, 'openstack compute service list' in page) == (True, True)
    assert ('Last seen' in page, '<button' in page) == (False, False)
    answer = operator.post('/cluster/host/service', {'name': 'a', 'disabled': 'yes'})
    assert (answer.status_code, 'openstack compute service set' in answer.text) == (400, True)


def test_the_board_and_its_changes(operator, hosts):
    eventually(lambda: operator.get('/cluster/board').json['hosts'] == hosts)
    board = operator.get('/cluster/board').json
    answer = operator.get('/cluster/changes?since=other-1')
    assert answer.mimetype == 'text/event-stream'
    assert 'event: reload' in answer.text
    assert len(board['cells']) == 2


def test_an_unknown_host(operator, hosts):
    answer = operator.get('/cluster/host?name=<i>', headers={'HX-Request': 'true'})
    assert answer.status_code == 404
    assert '&lt;i&gt;' in answer.text


def test_a_refusal_of_a_project(operator, project, daemon, hosts):
    request_id = refused(daemon)
    told = project.get(f'/decisions/{request_id}').text
    assert 'removed the last hosts' in told
    assert '100000' not in told
    assert not re.search(r'\b2 hosts\b', told)
    assert request_id in project.get('/decisions').text
    told = operator.get(f'/decisions/{request_id}').text
    assert 'Nearest miss' in told
    assert 'removed the last 2' in told
    assert re.search(r'<dt>Attempts</dt><dd>\d+, [\d.]+ ms in the scheduler', told)
    form = {'host': 'a'}
    assert project.post(f'/decisions/{request_id}/why-not', form).status_code == 403
    assert 'does not pass' in operator.post(f'/decisions/{request_id}/why-not', form).text


def test_refusals_of_other_projects_are_not_shown(operator, project, daemon, hosts):
    request_id = refused(daemon, 'blue')
    assert project.get(f'/decisions/{request_id}').status_code == 404
    assert request_id not in project.get('/decisions').text
    for text in (request_id, 'blue', uuid_of('x')):
        assert request_id in operator.get(f'/decisions?q={text}').text
    assert request_id not in operator.get('/decisions?q=green').text


def test_what_if(operator, project, hosts):
    form = {'vcpus': 1, 'ram': 64, 'disk': 0, 'count': 2}
    assert project.post('/what-if', form).status_code == 403
    assert '2 servers would go to' in operator.post('/what-if', form).text
    answer = operator.post('/what-if', {**form, 'extra_specs': 'trait:CUSTOM_NO=required'})
    assert 'would find no host' in answer.text
    assert 'without trait:CUSTOM_NO=required' in answer.text
    answer = operator.post('/what-if', {**form, 'vcpus': 'x'}, HX_Request='true')
    assert (answer.status_code, 'not a whole number' in answer.text) == (400, True)


def test_groups(operator, project, served, daemon, hosts):
    made = daemon.groups.create(template(2), name='<shop>', context=_context('req-1', 'red'))
    other = daemon.groups.create(template(1), name='theirs', context=_context('req-2', 'blue'))
    listed = project.get('/groups').text
    assert '&lt;shop&gt;' in listed
    assert 'theirs' not in listed
    assert 'theirs' in operator.get('/groups').text
    assert project.get(f'/groups/{other.uuid}').status_code == 404
    assert '2 planned' in project.get(f'/groups/{made.uuid}').text
    assert 'On the map' in operator.get(f'/groups/{made.uuid}').text
    for one in (made, other):
        daemon.groups.delete(one.uuid)


def test_a_template_is_tried(project, daemon, hosts):
    fits = project.post('/groups/try', {'template': json.dumps(template(2))}).text
    assert 'it fits' in fits
    refused = project.post('/groups/try', {'template': json.dumps(template(3))}).text
    assert 'anti-affinity' in refused
    assert daemon.groups.list(context=_context('req-3', 'red')) == []
    assert project.post('/groups/try', {'template': ''}).status_code == 400


def test_refused_plans_are_shown_later(operator, project, daemon, hosts):
    for project_id, name in (('red', 'mine'), ('blue', 'theirs')):
        with pytest.raises(errors.GroupRefused):
            daemon.groups.create(template(3), name=name, context=_context('req-4', project_id))
    eventually(lambda: 'theirs' in operator.get('/groups').text)
    eventually(lambda: 'mine' in project.get('/groups').text)
    text = project.get('/groups').text
    assert 'anti-affinity' in text
    assert 'theirs' not in text
    (path,) = re.findall('/decisions/[^"]+', text)
    assert 'cannot be placed' not in project.get(path).text
    assert 'cannot be placed' in operator.get(path).text


def test_the_audit(operator, project, hosts):
    assert project.post('/schedulers/audit').status_code == 403
    assert 'sound' in operator.post('/schedulers/audit').text
    assert 'sound' in operator.get('/schedulers').text


def test_a_scheduler_says_its_release(operator, hosts):
    release = importlib.metadata.version('nova-sched')
    assert f'<td>{release}</td>' in operator.get('/schedulers').text


def test_the_end_of_a_session(operator):
    assert operator.post('/logout').status_code == 303
    assert operator.get('/groups').status_code == 303


def test_the_api_has_no_such_path():
    assert not [one.path for one in OPERATIONS.values() if one.path.startswith('/dashboard')]
