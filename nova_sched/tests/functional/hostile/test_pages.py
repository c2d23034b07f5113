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
"""The dashboard in a browser that lies: its cookies, forms, addresses and names."""

import pytest
import werkzeug.test

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.test_api import managed, template
from nova_sched.tests.functional.test_dashboard import (
    TOKEN,
    Browser,
    hosts,
    made,
    operator,
    project,
)

__all__ = ['hosts', 'operator', 'project']

HTML = '"><script>alert(1)</script>\'{{7*7}}'
COOKIE = 'nova_sched_dashboard'


@pytest.fixture(scope='module')
def served(started, tmp_path_factory):
    with managed(started.bus, tmp_path_factory.mktemp('queues')):
        yield made(started)


def cookie(browser):
    return browser._client.get_cookie(COOKIE).value


def with_cookie(served, text):
    """A browser with a stolen, or a made up, cookie."""
    found = Browser(served)
    found._client = werkzeug.test.Client(served, use_cookies=False)
    get, post = found._client.get, found._client.post
    words = {'Cookie': f'{COOKIE}={text}'}
    found._client.get = lambda path, headers=None, **more: get(
        path, headers={**words, **(headers or {})}, **more
    )
    found._client.post = lambda path, headers=None, **more: post(
        path, headers={**words, **(headers or {})}, **more
    )
    return found


def is_in(browser):
    return browser.get('/groups').status_code == 200


NEXT = [
    '//evil', '///evil', '/\\evil', '\\\\evil', '/\t/evil', '/\n/evil', 'https:evil',
    'javascript:1', 'http://localhost.evil/', '/\u2028/evil', '/\u00ad/evil',
    '/\x7f/evil', 'groups', ' /groups',
    '/groups\r\nSet-Cookie: a=b',
]  # fmt: skip


def test_a_login_leads_to_no_other_site(served):
    wrong = {}
    for there in NEXT:
        browser = Browser(served)
        browser.token = TOKEN.search(browser.get('/login').text)[1]
        answer = browser.post('/login', {'user': 'ann', 'project': 'red', 'next': there})
        found = answer.status_code, answer.headers.get('Location'), list(answer.headers)
        if found[:2] not in ((303, '/'), (303, 'http://localhost/')):
            wrong[there] = found
        page = browser._client.get(
            '/login', query_string={'next': there}, base_url='http://localhost'
        )
        if 'evil' in page.text or 'javascript' in page.text:
            wrong[f'page {there}'] = page.text
    assert wrong == {}


NAMES = [
    ('a\nb', 'red'), ('ann', 'r\r\nX: y'), ('ann\0', 'red'), ('admin\x1b[2J', 'red'),
    ('a' * 4000, 'red'), ('ann', 'r' * 4000), ('ann:admin', 'red'), ('', 'red'), (' ', ' '),
    ('\u202eadmin', 'red'), ('ann', '\u200b'),
]  # fmt: skip


def test_names_that_are_none_log_nobody_in(served):
    """A browser would throw away the cookie of a name that is too long."""
    wrong = {}
    for user, name in NAMES:
        browser = Browser(served)
        browser.token = TOKEN.search(browser.get('/login').text)[1]
        answer = browser.post('/login', {'user': user, 'project': name})
        if answer.status_code != 403 or is_in(browser):
            wrong[user[:9], name[:9]] = answer.status_code
    assert wrong == {}


def test_names_that_are_html_are_text(served, hosts):
    browser = Browser(served).log_in('<script>a</script>', '<b>{{7*7}}</b>')
    found = browser.get('/groups').text
    assert '<script>a' not in found
    assert '<b>{{' not in found
    assert '&lt;script&gt;a' in found


def test_cookies_that_are_none(served, project):
    good = cookie(project)
    assert is_in(with_cookie(served, good))
    wrong = [
        name
        for name, text in (
            ('cut', good[:-5]),
            ('in capitals', good.upper()),
            ('with a bit of another', good[:60] + ('A' if good[60] != 'A' else 'B') + good[61:]),
            ('longer', 'AAAA' + good),
            ('empty', ''),
            ('large', 'A' * 60000),
            ('plain', '{"uuid": "x", "token": "admin:red"}'),
            ('signed for Flask', 'eyJ0b2tlbiI6ImFkbWluOnJlZCJ9.aaaaaa.bbbbbb'),
            ('behind one that is set by another', f'x; {COOKIE}={good}'),
            ('in other letters', good.replace('A', '\u00c0')),
        )
        if is_in(with_cookie(served, text))
    ]
    assert wrong == []


def test_what_changes_something_comes_from_a_page_of_the_session(served, project, operator):
    """With the token of another session, from another site, or by other means."""
    good, token = cookie(project), project.token
    wrong = []
    for name, form, headers in (
        ('no token', {'csrf_token': ''}, {}),
        ('the token of another', {'csrf_token': operator.token}, {}),
        ('a token in other letters', {'csrf_token': token + '\u00e9'}, {}),
        ('no site', {'csrf_token': token}, {'Origin': 'null'}),
        ('a longer site', {'csrf_token': token}, {'Origin': 'http://localhost.evil'}),
        ('another port', {'csrf_token': token}, {'Origin': 'http://localhost:81'}),
        ('a site with a user', {'csrf_token': token}, {'Origin': 'http://evil@localhost'}),
        ('a wrong token in a header', {'csrf_token': ''}, {'X_CSRF_Token': '\xff'}),
    ):
        answer = with_cookie(served, good).post('/logout', form, **headers)
        if answer.status_code != 403 or not is_in(with_cookie(served, good)):
            wrong.append(name)
    client = with_cookie(served, good)._client
    for name, words in (
        ('JSON', {'json': {'csrf_token': token}}),
        ('text', {'data': f'csrf_token={token}', 'content_type': 'text/plain'}),
        ('the query', {'query_string': {'csrf_token': token}}),
    ):
        if client.post('/logout', base_url='http://localhost', **words).status_code != 403:
            wrong.append(name)
    assert client.get('/logout', base_url='http://localhost').status_code == 405
    assert (wrong, is_in(with_cookie(served, good))) == ([], True)


def test_a_session_ends_for_each_copy_of_its_cookie(served):
    """By a logout, by one in another window, and by the next login in its place."""
    browser = Browser(served).log_in('ann', 'red')
    copy, token = cookie(browser), browser.token
    browser.post('/logout')
    assert not is_in(with_cookie(served, copy))
    again = with_cookie(served, copy)
    again.token = token
    assert again.post('/logout').status_code in (303, 403)
    browser.log_in('ann', 'red')
    copy = cookie(browser)
    browser.log_in('bob', 'blue')
    assert is_in(browser)
    assert not is_in(with_cookie(served, copy))


def test_a_session_that_was_there_before_the_login_is_no_login(served):
    """Its cookie, which another may have set, is worth nothing after it."""
    browser = Browser(served)
    browser.get('/login')
    before = cookie(browser)
    browser.log_in('ann', 'red')
    assert not is_in(with_cookie(served, before))


ADDRESSES = [
    '/cluster?{}', '/cluster/board?color={}&level={}&zone={}', '/cluster/changes?since={}',
    '/cluster/changes?version={}', '/cluster/host?host={}&node={}&uuid={}',
    '/cluster/host?name={}', '/decisions?refused={}&project={}&host={}',
    '/decisions?id={}', '/decisions/{}',
    '/what-if?flavor={}', '/groups/{}', '/groups?marker={}', '/queues?marker={}&limit={}',
    '/queues/{}', '/schedulers?{}', '/static/../app.py', '/static/%2e%2e/app.py', '/static/{}',
    '/login?next={}',
]  # fmt: skip
WORDS = [
    HTML,
    '\0',
    '\ud800',
    '-1',
    '9' * 5000,
    '%',
    "' OR 1=1 --",
    '../../etc/passwd',
    '\u202e',
    '',
]


def test_no_address_is_an_error_of_the_service(operator, project, hosts):
    wrong = {}
    for browser, address, word in (
        (one, address, word)
        for one in (operator, project)
        for address in ADDRESSES
        for word in WORDS
    ):
        text = ''.join(f'%{byte:02x}' for byte in word.encode('utf-8', 'surrogatepass'))
        path = address.replace('{}', text)
        if path.startswith('/cluster/changes'):
            answer = browser._client.get(path, base_url='http://localhost', buffered=False)
            answer.close()
        else:
            answer = browser.get(path)
            if '<script>alert' in answer.text or '"><script' in answer.text:
                wrong[path[:80]] = 'it is in the page as it came'
        if answer.status_code >= 500:
            wrong[path[:80]] = answer.status_code
    assert wrong == {}


FORMS = [
    {}, {'vcpus': '9' * 5000}, {'vcpus': '-1', 'ram': 'x'}, {'vcpus': '\u0661', 'ram': '1'},
    {'vcpus': '1e9', 'ram': 'nan', 'disk': 'inf'}, {'flavor': '[' * 60000},
    {'flavor': '{"vcpus": ' + '9' * 5000 + '}'}, {'flavor': '{"vcpus": NaN}'}, {'flavor': HTML},
    {'vcpus': '1', 'ram': '1', 'disk': '0', 'extra_specs': '_=\n=x\n\0=y'},
    {'vcpus': '1', 'ram': '1', 'disk': '0', 'extra_specs': f'{HTML}={HTML}'},
    {'vcpus': '1', 'ram': '1', 'disk': '0', 'extra_specs': '\n'.join(
        f'resources{number}:A=1' for number in range(3000))},
    {'vcpus': '1', 'ram': '1', 'disk': '0', 'zone': HTML, 'count': '9' * 30},
    {'vcpus': '1', 'ram': '1', 'disk': '0', 'hints': '_nova_check_type=rebuild', 'group': HTML},
]  # fmt: skip
TEMPLATES = [
    HTML, '[' * 60000, '\0', 'a: &a [*a, *a]', '{"heat_template_version": ' + '9' * 5000 + '}',
    f'heat_template_version: 2021-04-16\ndescription: "{HTML[1:]}"\nresources: {{}}',
]  # fmt: skip


def test_no_form_is_an_error_of_the_service(operator, project, hosts):
    wrong = {}
    sent = [('/what-if', form) for form in FORMS]
    sent += [('/groups', {'template': text}) for text in TEMPLATES]
    sent += [('/groups/try', {'template': text}) for text in TEMPLATES]
    for browser in (operator, project):
        for path, form in sent:
            answer = browser.post(path, form)
            if answer.status_code >= 500 or '<script>alert' in answer.text:
                wrong[path, str(form)[:60]] = answer.status_code
    assert wrong == {}


def test_what_a_group_is_called_is_text(served, operator, daemon, hosts):
    group = daemon.groups.create(template(1), name=HTML)
    for path in ('/groups', f'/groups/{group.uuid}'):
        found = operator.get(path)
        assert found.status_code == 200
        assert '<script>alert' not in found.text
    daemon.groups.delete(group.uuid)
    assert operator.get(f'/groups/{uuid_of("nobody")}').status_code == 404
