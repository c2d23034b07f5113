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

"""What protects the pages: the rights of callers, the headers that browsers heed, and the token
that forms carry."""

import hmac
import secrets
from urllib.parse import urlsplit

import flask
from werkzeug import exceptions

from nova_sched import urls
from nova_sched.api import policies

TOKEN, HEADER = 'csrf_token', 'X-CSRF-Token'
# Scripts, styles and data of this server only, and nothing inline.
POLICY = '; '.join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    'Content-Security-Policy': POLICY,
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
    'Referrer-Policy': 'same-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
}


def rules(rule):
    """Return the rights of the dashboard, made with api.policies.rule: what it shows of hosts and
    decisions is in no operation of the API."""
    return [
        rule(
            'dashboard:hosts',
            'rule:operator',
            'See all hosts with their claims.',
            ('GET', '/dashboard/cluster'),
            ('GET', '/dashboard/cluster/board'),
            ('GET', '/dashboard/cluster/changes'),
            ('GET', '/dashboard/cluster/host'),
        ),
        rule(
            'dashboard:hosts:set_service',
            'rule:admin',
            'Disable and enable hosts.',
            ('POST', '/dashboard/cluster/host/service'),
        ),
        rule(
            'dashboard:decisions',
            policies.READER,
            "See the refused requests of the caller's project.",
            ('GET', '/dashboard/decisions'),
            ('GET', '/dashboard/decisions/{request_id}'),
        ),
        rule(
            'dashboard:decisions:all_projects',
            'rule:operator',
            'See the decisions about requests of all projects, with hosts and amounts.',
            ('GET', '/dashboard/decisions'),
            ('GET', '/dashboard/decisions/{request_id}'),
        ),
        rule(
            'dashboard:ask',
            'rule:operator',
            'Ask where a server would go, and why it does not go to a host.',
            ('GET', '/dashboard/what-if'),
            ('POST', '/dashboard/what-if'),
            ('POST', '/dashboard/decisions/{request_id}/why-not'),
        ),
        rule(
            'dashboard:jobs',
            policies.READER,
            "See the jobs of the caller's project.",
            ('GET', '/dashboard/queues'),
        ),
        rule(
            'dashboard:jobs:all_projects',
            'rule:operator',
            'See the jobs of all projects.',
            ('GET', '/dashboard/queues'),
        ),
        rule(
            'dashboard:schedulers',
            'rule:operator',
            'See the scheduler processes.',
            ('GET', '/dashboard/schedulers'),
        ),
        rule(
            'dashboard:audit',
            'rule:operator',
            'Compare claims and recorded usage. It repairs nothing.',
            ('POST', '/dashboard/schedulers/audit'),
        ),
    ]


def add_headers(response):
    response.headers.update(HEADERS)
    if flask.request.endpoint != 'static':
        response.headers['Cache-Control'] = 'no-store'
    return response


def token():
    """The token of this session, for forms."""
    return flask.session.setdefault(TOKEN, secrets.token_urlsafe(32))


def check_token():
    """Raise Forbidden if a request that may change something does not come from a page of this
    session."""
    request = flask.request
    if request.method in ('GET', 'HEAD', 'OPTIONS'):
        return
    origin = request.headers.get('Origin')
    if origin is not None and origin.partition('://')[2] != request.host:
        raise exceptions.Forbidden('The request comes from a page of another site.')
    sent = request.headers.get(HEADER) or request.form.get(TOKEN, '')
    wanted = flask.session.get(TOKEN)
    if not wanted or not hmac.compare_digest(sent.encode(), wanted.encode()):
        raise exceptions.Forbidden(
            'The form is from another session, or has no token: load the page again.'
        )


def address():
    """The address of the caller. Behind a proxy it is the last of a list, which the proxy has
    added: a caller can send those before it."""
    return (flask.request.remote_addr or '').rpartition(',')[2].strip()


def check_host():
    """Raise Forbidden for a name that is not of this machine, or a caller on another one: without
    authentication, another site could have a browser send it here under the site's own name."""
    # Without an address the caller is at a socket of this machine.
    caller = flask.request.remote_addr or 'localhost'
    if not (urls.is_loopback(_name(flask.request.host)) and urls.is_loopback(caller)):
        raise exceptions.Forbidden(
            'Without authentication the dashboard answers under localhost and 127.0.0.1 only.'
        )


def _name(host):
    """The name or the address in a Host header; '' if there is none."""
    try:
        return urlsplit(f'//{host}').hostname or ''
    except ValueError:
        return ''


def local_path(path):
    """The path, if it is one of this server; else None. Browsers leave out some characters of an
    address that cannot be printed, so none may be in it."""
    if not path or not path.isprintable() or '\\' in path:
        return None
    return path if path.startswith('/') and not path.startswith('//') else None
