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

"""Assembles the dashboard: its pages, the rights to them, and what all of them have in common."""

import datetime
import functools
import json
import logging
import secrets

import flask
from oslo_middleware import HTTPProxyToWSGI, RequestId
from werkzeug import exceptions

from nova_sched import errors
from nova_sched.api import faults
from nova_sched.api.calls import Request
from nova_sched.api.limits import Limits, PlanRateLimit
from nova_sched.api.policies import AccessPolicy
from nova_sched.cmd.manage import tables
from nova_sched.extensions.dashboard import (
    FORM_SIZE,
    cluster,
    decisions,
    groups,
    queues,
    schedulers,
    security,
    sessions,
    what_if,
)
from nova_sched.extensions.dashboard.parts import Parts, Sources

LOG = logging.getLogger(__name__)

COOKIE = 'nova_sched_dashboard'
OPEN = frozenset(['static', 'login', 'log_in'])
COUNTED = frozenset(['group', 'try_group'])  # they have a template read, or planned
KEPT = ('Allow', 'Retry-After')  # headers of a fault
MIN_KEY_LENGTH = 32  # characters of the key that seals sessions, at least
PAGES = (cluster, decisions, what_if, groups, queues, schedulers)


def make(conf, clients, database, limits=None):
    """Return the dashboard as a WSGI application. ``clients`` is a Clients; ``database()``
    returns the engine of the database (see ``parts.Sources``); ``limits`` are the Limits of the
    process, if it serves more than this. Raise BadConfig."""
    limits = limits or Limits(conf)
    parts = Parts(conf, AccessPolicy(conf), clients, Sources(conf, database))
    app = flask.Flask('nova_sched.extensions.dashboard')
    app.request_class = Request
    app.config.update(MAX_CONTENT_LENGTH=FORM_SIZE, MAX_FORM_MEMORY_SIZE=FORM_SIZE)
    app.config.update(SESSION_COOKIE_NAME=COOKIE, SESSION_COOKIE_SAMESITE='Strict')
    app.config.update(SEND_FILE_MAX_AGE_DEFAULT=3600)
    app.session_interface = sessions.Sessions(_secret_key(conf))
    app.jinja_env.filters.update(FILTERS)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    guard = sessions.Authenticator(conf, limits.keystone)
    ended = sessions.EndedSessions(lambda: parts.sources.ended_sessions)
    logins = PlanRateLimit(conf.dashboard.login_rate, '[dashboard] login_rate')
    count = functools.partial(limits.plans.count, parts.policy)
    app.context_processor(lambda: _words(parts))
    app.before_request(lambda: _admit(guard, ended, conf, logins, count))
    app.after_request(security.add_headers)
    app.register_error_handler(Exception, _failed)
    sessions.add(app, guard, ended)
    for page in PAGES:
        page.add(app, parts)
    app.add_url_rule('/', 'home', lambda: flask.redirect(_first(parts)))
    return HTTPProxyToWSGI(RequestId(app), conf)


def _secret_key(conf):
    """The key that seals sessions. A short one can be found by trying; then sessions can be read
    and made up. Raise BadConfig."""
    key = conf.dashboard.secret_key
    if key and len(key) < MIN_KEY_LENGTH:
        why = f'it has {len(key)} characters; {MIN_KEY_LENGTH} is the least'
        raise errors.BadConfig('[dashboard] secret_key', why)
    return key.encode() if key else secrets.token_bytes(MIN_KEY_LENGTH)


def _admit(guard, ended, conf, logins, count):
    """Before each request: identify the caller, or send it to the login page; and count what is
    limited. Its body is read after that."""
    request = flask.request
    if guard.is_open and not conf.api.insecure:
        security.check_host()
    if request.endpoint == 'log_in':
        logins.take(security.address())
    if request.endpoint in OPEN:
        security.check_token()
        return None
    uuid, token = flask.session.get('uuid'), flask.session.get('token')
    # A caller logs out also while the database is away.
    is_open = uuid and (request.endpoint == 'log_out' or not ended.has(uuid))
    context = guard.context(token, request.environ) if is_open else None
    if context is not None:
        flask.g.context = context
        if request.endpoint in COUNTED:
            count(context)
        security.check_token()
        return None
    for name in sessions.OF_CALLER:
        flask.session.pop(name, None)
    login = flask.url_for('login')
    if 'HX-Request' in request.headers:
        return flask.Response(status=204, headers={'HX-Redirect': login})
    if request.method == 'GET':  # other requests are not repeated after the login
        login = flask.url_for('login', next=request.script_root + request.full_path.rstrip('?'))
    return flask.redirect(login, 303)


def _words(parts):
    """Names that every template knows."""
    pages = [page for page in PAGES if parts.may(page.RULE)] if 'context' in flask.g else []
    return {
        'csrf_token': security.token,
        'may': parts.may,
        'navigation': [(page.ENDPOINT, page.TITLE) for page in pages],
        'caller': flask.session.get('name'),
        'htmx_config': json.dumps(HTMX),
    }


def _first(parts):
    """The first page that the caller may see."""
    endpoints = [page.ENDPOINT for page in PAGES if parts.may(page.RULE)]
    return flask.url_for(endpoints[0] if endpoints else 'login')


# No style and no script that the page does not name, and no request to elsewhere. The text of an
# error replaces what it was asked for.
HTMX = {
    'includeIndicatorStyles': False,
    'allowEval': False,
    'allowScriptTags': False,
    'selfRequestsOnly': True,
    'historyCacheSize': 0,
    'responseHandling': [
        {'code': '204', 'swap': False},
        {'code': '[23]..', 'swap': True},
        {'code': '...', 'swap': True, 'error': True},
    ],
}


def _failed(error):
    """A page, or a part of one, about a request that failed: as the REST API says it."""
    if isinstance(error, errors.BadConfig):
        LOG.error('A page cannot be made: %s', error)
        error = exceptions.ServiceUnavailable(
            'The service is not set up for this page; its log says what is missing.'
        )
    answer = faults.of(error, flask.request.environ)
    (fault,) = json.loads(answer.get_data())['errors']
    template = 'fault.html' if 'HX-Request' in flask.request.headers else 'fault_page.html'
    kept = {name: answer.headers[name] for name in KEPT if name in answer.headers}
    return flask.render_template(template, fault=fault), answer.status_code, kept


# How values are written on the pages.


def moment(seconds):
    """Seconds since the epoch as `2026-11-25 19:15:30 UTC`."""
    if seconds is None:
        return 'never'
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return when.strftime('%Y-%m-%d %H:%M:%S UTC')


def age(seconds, now_s):
    """How long ago a moment was: both by the clock of the database."""
    return 'never' if seconds is None else f'{tables.span(max(0, now_s - seconds))} ago'


def number(value):
    """A number with at most four digits that count, and thousands apart; `-` for None."""
    if value is None:
        return '-'
    if float(value).is_integer():
        return f'{int(value):,}'.replace(',', ' ')
    return f'{value:.4g}'


def counted(value, word):
    """`1 host`, `2 000 hosts`."""
    return f'{number(value)} {word}{"" if value == 1 else "s"}'


def short(uuid):
    """The first part of a UUID or of a request id."""
    text = uuid or '-'
    return f'{text[:12]}…' if len(text) > 13 else text


def amounts(resources):
    """Amounts by resource class."""
    return ', '.join(f'{number(amount)} {name}' for name, amount in sorted(resources.items()))


FILTERS = {
    'moment': moment,
    'span': tables.span,
    'age': age,
    'number': number,
    'counted': counted,
    'short': short,
    'amounts': amounts,
}
