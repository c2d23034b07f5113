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

"""Requests before a page has them: logins, their limit, and a service that is not set up."""

import base64
import re
import time
import types

import pytest
from werkzeug.test import Client

from nova_sched import errors
from nova_sched.api import app as api_app
from nova_sched.api.limits import Limits
from nova_sched.cmd import api
from nova_sched.cmd.manage import store
from nova_sched.conf import register_opts
from nova_sched.db.jobs import JobEntry
from nova_sched.extensions.dashboard import app, decisions, queues, sessions
from nova_sched.extensions.dashboard.parts import Clients
from nova_sched.extensions.dashboard.sessions import Authenticator
from nova_sched.extensions.queues import rest
from nova_sched.rpc import client as client_module
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.callers import configuration
from nova_sched.tests.unit.extensions.dashboard.test_decisions import record
from nova_sched.tests.unit.extensions.dashboard.test_queues import Policy

TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')
FORM = {'user': 'admin', 'project': 'operators'}


NOBODY = Clients(None, None, None)


def no_database():
    raise errors.BadConfig('[database] connection', 'there is no file /secret/place')


def client(clients=NOBODY, limits=None, **options):
    conf = configuration(insecure=True)
    register_opts(conf)
    for name, value in options.items():
        conf.set_override(name, value, group='dashboard')
    made = Client(app.make(conf, clients, no_database, limits))
    conf.set_override('enable_proxy_headers_parsing', True, group='oslo_middleware')
    return made


class Ended(set):
    """The table of ended sessions."""

    def add(self, uuid, for_s):
        super().add(uuid)

    def has(self, uuid):
        return uuid in self


def sent(client, path, form=(), **headers):
    token = TOKEN.search(client.get('/login').text)[1]
    return client.post(path, data={'csrf_token': token, **dict(form)}, headers=headers)


def test_a_service_without_a_database():
    caller = client()
    assert sent(caller, '/login', FORM).status_code == 303
    for path in ('/cluster', '/cluster/board', '/decisions', '/schedulers'):
        answer = caller.get(path)
        if path == '/cluster':  # its script reads the hosts
            assert answer.status_code == 200
            continue
        assert answer.status_code == 503
        assert answer.headers['Retry-After']
        assert 'not set up' in answer.text
        assert 'secret' not in answer.text


def test_what_a_caller_says_of_its_address_does_not_lift_the_limit():
    caller = client(login_rate='1/minute')
    seen = [
        sent(caller, '/login', FORM, **{'X-Forwarded-For': f'{invented}192.0.2.7'})
        for invented in ('', '198.51.100.1, ', '198.51.100.2, ')
    ]
    assert [one.status_code for one in seen] == [303, 429, 429]
    assert int(seen[1].headers['Retry-After']) >= 1
    other = sent(caller, '/login', FORM, **{'X-Forwarded-For': '192.0.2.7, 192.0.2.8'})
    assert other.status_code == 303


@each(
    'method, path, is_counted',
    [
        ('GET', f'/groups/{uuid_of("group")}', True),
        ('POST', '/groups/try', True),
        ('GET', '/groups', False),
        ('POST', '/logout', False),
    ],
)
def test_plans_of_the_api_and_the_dashboard_are_counted_together(method, path, is_counted):
    """Before a form is read: this one has no token."""
    limits = Limits(configuration(plan_rate='1/minute'))
    caller = client(Clients(Silent(), Silent(), Silent()), limits)
    sent(caller, '/login', {'user': 'ann', 'project': 'red'})
    limits.plans.take('red')
    answer = caller.open(path, method=method)
    assert (answer.status_code == 429) is is_counted, answer.text
    assert ('Retry-After' in answer.headers) or not is_counted


def test_a_form_is_not_repeated_after_a_login():
    answer = sent(client(), '/schedulers/audit')
    assert answer.status_code == 303
    assert answer.headers['Location'].endswith('/login')


@pytest.mark.parametrize('rules', [(), ('dashboard:audit',)])
def test_an_audit_is_shown_only_with_its_right(monkeypatch, rules):
    processes = types.SimpleNamespace(now_s=lambda: 0.0, alive=lambda since_s: [])
    sources = types.SimpleNamespace(schedulers=processes, ended_sessions=Ended())
    monkeypatch.setattr(app, 'AccessPolicy', lambda conf: Policy('dashboard:schedulers', *rules))
    monkeypatch.setattr(app, 'Sources', lambda *_: sources)
    caller = client()
    sent(caller, '/login', FORM)
    assert ('Not run since' in caller.get('/schedulers').text) is bool(rules)


def test_ages_are_by_the_clock_of_the_database(monkeypatch):
    ids = {'uuid': uuid_of('job'), 'instance_uuid': uuid_of('server')}
    job = JobEntry(**ids, kind='build', message='', created_s=940.0, updated_s=940.0)
    sources = types.SimpleNamespace(
        ended_sessions=Ended(),
        decisions=types.SimpleNamespace(
            now_s=lambda: 1000.0, newest_first=lambda refused: [{**record('red'), 'time': 970.0}]
        ),
        jobs=types.SimpleNamespace(now_s=lambda: 1000.0, newest=lambda most: [job]),
    )
    rules = decisions.RULE, decisions.ALL, queues.RULE, queues.JOBS, queues.ALL_JOBS
    monkeypatch.setattr(app, 'AccessPolicy', lambda conf: Policy(*rules))
    monkeypatch.setattr(app, 'Sources', lambda *_: sources)
    caller = client(clients=Clients(Silent(), Silent(), Silent()))
    sent(caller, '/login', FORM)
    assert '>30 s ago<' in caller.get('/decisions').text
    assert '>60 s ago<' in caller.get('/queues').text


class Silent:
    """A manager of queues that does not answer."""

    def __getattr__(self, name):
        raise errors.NoAnswer(name, 1)


def test_a_logout_ends_the_session(monkeypatch):
    """For a copy of its cookie, too, and at every process with that key."""
    ended, revoked = Ended(), []
    monkeypatch.setattr(Authenticator, 'log_out', lambda guard, token: revoked.append(token))
    monkeypatch.setattr(app, 'Sources', lambda *_: types.SimpleNamespace(ended_sessions=ended))
    caller, other = client(secret_key='k' * 32), client(secret_key='k' * 32)
    sent(caller, '/login', FORM)
    cookie = caller.get_cookie(app.COOKIE)
    for process in (caller, other):
        process.set_cookie(app.COOKIE, cookie.value)
        assert process.get('/cluster').status_code == 200
    page = caller.get('/cluster').text
    answer = caller.post('/logout', data={'csrf_token': TOKEN.search(page)[1]})
    assert (answer.status_code, revoked) == (303, ['admin:operators'])
    assert caller.get('/cluster').status_code == 303
    for process in (caller, other):
        process.set_cookie(app.COOKIE, cookie.value)
        assert process.get('/cluster').status_code == 303


def test_without_a_database_one_process_knows_which_sessions_have_ended():
    caller = client()
    sent(caller, '/login', FORM)
    cookie = caller.get_cookie(app.COOKIE).value
    page = caller.get('/cluster').text
    caller.post('/logout', data={'csrf_token': TOKEN.search(page)[1]})
    caller.set_cookie(app.COOKIE, cookie)
    assert caller.get('/cluster').status_code == 303


def test_a_database_that_is_away_opens_no_session(monkeypatch):
    """But a caller can end his."""

    class Away:
        @property
        def ended_sessions(self):
            raise errors.StoreUnavailable('it is away')

    monkeypatch.setattr(app, 'Sources', lambda *_: Away())
    caller = client()
    sent(caller, '/login', FORM)
    assert caller.get('/cluster').status_code == 503
    assert sent(caller, '/logout').status_code == 303
    assert caller.get('/cluster').status_code == 303


@each(
    'change',
    [
        lambda cookie: cookie[:-4] + 'AAA=',
        lambda cookie: cookie[:40],
        lambda cookie: 'eyJ0b2tlbiI6ImFkbWluOm9wZXJhdG9ycyJ9.x.y',
        lambda cookie: 'ü',
    ],
)
def test_another_cookie_is_none(change):
    """And a cookie shows nothing, neither as it is nor as any text that it encodes."""
    caller = client()
    sent(caller, '/login', FORM)
    cookie = caller.get_cookie(app.COOKIE).value
    plain = cookie.encode() + base64.urlsafe_b64decode(cookie)
    assert (b'operators' in plain, b'token' in plain) == (False, False)
    caller.set_cookie(app.COOKIE, change(cookie))
    assert caller.get('/cluster').status_code == 303


def test_a_cookie_has_its_time(monkeypatch):
    caller = client()
    sent(caller, '/login', FORM)
    caller.get('/cluster')  # it has the token for forms from now on
    begun_s = time.time()
    for later_s, status in ((sessions.LIFE_S - 60, 200), (sessions.LIFE_S + 60, 303)):
        monkeypatch.setattr(time, 'time', lambda now_s=begun_s + later_s: now_s)
        assert caller.get('/cluster').status_code == status


def test_a_short_key_and_an_odd_rate_are_refused():
    for length in (32, 0):
        client(secret_key='k' * length)
    with pytest.raises(errors.BadConfig, match=r'secret_key.*31 characters'):
        client(secret_key='k' * 31)
    with pytest.raises(errors.BadConfig, match='login_rate'):
        client(login_rate='often')


def test_a_page_waits_for_the_database_as_a_scheduler_does(monkeypatch, tmp_path):
    conf = configuration()
    register_opts(conf)
    file = tmp_path / 'claims'
    file.touch()
    conf.set_override('connection', f'sqlite:///{file}', group='database')
    monkeypatch.setattr(app, 'make', lambda conf, clients, database, limits: database)
    monkeypatch.setattr(api_app, 'make', lambda *_: None)
    monkeypatch.setattr(api, 'is_alone', lambda conf: False)
    for name in ('GroupsClient', 'ExplainClient'):
        monkeypatch.setattr(client_module, name, lambda *_, **__: None)
    monkeypatch.setattr(rest, 'QueuesClient', lambda *_, **__: None)
    monkeypatch.setattr(store.db_engine, 'for_command', lambda url, limits: limits)
    monkeypatch.setattr(store.schema, 'check', lambda engine: None)
    limits = api.everything(conf, None).mounts['/dashboard']()
    assert limits.statement_s == conf.database_limits.statement_timeout
