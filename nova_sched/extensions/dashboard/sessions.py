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

"""Sessions: how callers log in and out, what a cookie holds, whether it has ended, and the caller
with its token."""

import base64
import hashlib
import json
import logging
import time
import uuid

import flask
from cryptography import fernet
from flask.sessions import SecureCookieSessionInterface
from keystoneauth1 import session as keystone_session
from keystoneauth1.discover import Discover
from keystoneauth1.exceptions import ClientException, Unauthorized
from keystoneauth1.identity import v3
from werkzeug import exceptions

from nova_sched import errors, words
from nova_sched.api import identity
from nova_sched.extensions.dashboard import security

LOG = logging.getLogger(__name__)

OF_CALLER = ('uuid', 'token', 'name')  # in a session of a caller that has logged in
LIFE_S = 24 * 3600  # of a cookie
ENDED_S = 2 * LIFE_S  # that a logout is remembered: requests in flight may seal another cookie
TIMEOUT_S = 10.0  # for each answer of Keystone, unless [keystone_authtoken] has one
REVOKE_S = 5.0  # for each one while a caller logs out


class Sessions(SecureCookieSessionInterface):
    """Sealed cookies for the pages only: who reads one learns nothing, the token least of all.
    With TLS they are sent over TLS only."""

    def __init__(self, secret):
        key = hashlib.blake2b(secret, digest_size=32, person=b'dashboard').digest()
        self._fernet = fernet.Fernet(base64.urlsafe_b64encode(key))

    def open_session(self, app, request):
        """The session of a cookie; an empty one if it is of another key, or too old."""
        sealed = request.cookies.get(self.get_cookie_name(app), '')
        try:
            return self.session_class(json.loads(self._fernet.decrypt(sealed.encode(), LIFE_S)))
        except fernet.InvalidToken:
            return self.session_class()

    def get_signing_serializer(self, app):
        return self

    def dumps(self, session):
        """What a cookie holds."""
        return self._fernet.encrypt(json.dumps(session).encode()).decode()

    def get_cookie_path(self, app):
        return flask.request.script_root or '/'

    def get_cookie_secure(self, app):
        return flask.request.is_secure


class EndedSessions:
    """Sessions that callers have ended: their cookies are worth nothing any more.

    ``table()`` returns a db.ended_sessions.SqlEndedSessions, for all processes. Where it raises
    BadConfig there is no database, and no other process knows.
    """

    def __init__(self, table):
        self._table, self._here = table, {}

    def add(self, session):
        """End a session (its UUID). A caller logs out even if the database does not answer."""
        now_s = time.monotonic()
        self._here = {ended: end_s for ended, end_s in self._here.items() if end_s > now_s}
        self._here[session] = now_s + ENDED_S
        try:
            self._table().add(session, ENDED_S)
        except errors.SchedError as error:
            LOG.warning('Other processes do not know that a session has ended: %s', error)

    def has(self, session):
        """Whether a session has ended. Raise StoreUnavailable."""
        try:
            return session in self._here or self._table().has(session)
        except errors.BadConfig:
            return False


class Authenticator:
    """Validates tokens as the REST API does, obtains them for callers that log in, and revokes
    them when they log out. ``keystone``: a limits.Service. Raises BadConfig."""

    def __init__(self, conf, keystone):
        self._conf, self._keystone = conf, keystone
        self.is_open = conf.api.auth_strategy == 'noauth'
        self._guard = (
            identity.NoAuth(identity.admit)
            if self.is_open
            else identity.KeystoneAuth(identity.admit, conf, keystone)
        )

    def context(self, token, environ):
        """The caller with this token; None if the token is not valid (any more). Raise
        ServiceUnavailable if Keystone does not answer."""
        # Headers of the request itself say nothing about its caller.
        inside = {name: value for name, value in environ.items() if not name.startswith('HTTP_')}
        inside.pop(identity.ADMITTED, None)
        inside |= {'HTTP_X_AUTH_TOKEN': token, 'REQUEST_METHOD': 'GET'}
        answer = []
        for _ in self._guard(inside, lambda status, headers, exc_info=None: answer.append(status)):
            pass
        if identity.ADMITTED in inside:
            return identity.context(inside)
        if answer and answer[0].startswith('503'):
            raise exceptions.ServiceUnavailable('Keystone does not answer.')
        return None

    def log_in(self, form):
        """A token for the words of the login form. Raise Unauthorized, ServiceUnavailable
        or ServiceBusy."""
        user, project = form.get('user', '').strip(), form.get('project', '').strip()
        if self.is_open:
            if not words.is_name(user) or not words.is_name(project) or ':' in user:
                raise exceptions.Unauthorized('Give the name of a user and of a project.')
            return f'{user}:{project}'
        if not user:
            raise exceptions.Unauthorized('Give the name of a user.')
        try:
            with self._keystone.place():
                return self._keystone_token(form, user, project)
        except Unauthorized:
            raise exceptions.Unauthorized('The name or the password is wrong.') from None
        except ClientException as error:
            LOG.warning('Keystone does not let a caller log in: %s', error)
            raise exceptions.ServiceUnavailable('Keystone does not answer.') from None

    def _keystone_token(self, form, user, project):
        """For a project, or without one for the whole cloud."""
        section = self._conf.keystone_authtoken
        scope = (
            {
                'project_name': project,
                'project_domain_name': form.get('project_domain') or 'Default',
            }
            if project
            else {'system_scope': 'all'}
        )
        auth = v3.Password(
            auth_url=self._address(),
            username=user,
            password=form.get('password', ''),
            user_domain_name=form.get('user_domain') or 'Default',
            **scope,
        )
        wait_s = section.http_connect_timeout or TIMEOUT_S
        return self._session(wait_s, auth).get_token()

    def log_out(self, token):
        """Revoke the token at Keystone. A caller logs out even if Keystone does not do it."""
        if self.is_open or token is None:
            return
        keystone = self._session(REVOKE_S)
        try:
            with self._keystone.place():
                url = Discover(keystone, self._address()).url_for('3')
                keystone.delete(
                    f'{url.rstrip("/")}/auth/tokens',
                    headers={'X-Auth-Token': token, 'X-Subject-Token': token},
                )
        except (ClientException, exceptions.ServiceUnavailable, errors.ServiceBusy) as error:
            LOG.warning('Keystone does not revoke a token: %s', error)

    def _session(self, wait_s, auth=None):
        section = self._conf.keystone_authtoken
        verify = False if section.insecure else section.cafile or True
        return keystone_session.Session(auth, verify=verify, timeout=wait_s)

    def _address(self):
        url = self._conf.dashboard.auth_url or self._conf.keystone_authtoken.www_authenticate_uri
        if not url:
            raise exceptions.ServiceUnavailable(
                'The address of Keystone is not known here: set [dashboard] auth_url.'
            )
        return url


def add(app, guard, ended):
    """Add the pages for logging in and out. ``guard`` is an Authenticator, ``ended`` an
    EndedSessions."""

    def login():
        return _login_page(guard)

    def log_in():
        request = flask.request
        try:
            token = guard.log_in(request.form)
        except exceptions.Unauthorized as error:
            return _login_page(guard, error.description), 403
        path = security.local_path(request.form.get('next'))
        end()  # a copy of its cookie, which nobody could log out any more; and its form token
        name = request.form['user'].strip()
        project = request.form.get('project', '').strip()
        flask.session.update(
            uuid=str(uuid.uuid4()),
            token=token,
            name=f'{name} in {project}' if project else name,
        )
        return flask.redirect(path or flask.url_for('home'), 303)

    def end():
        if 'uuid' in flask.session:
            ended.add(flask.session['uuid'])
            guard.log_out(flask.session['token'])
        flask.session.clear()

    def log_out():
        end()
        return flask.redirect(flask.url_for('login'), 303)

    app.add_url_rule('/login', 'login', login, methods=['GET'])
    app.add_url_rule('/login', 'log_in', log_in, methods=['POST'])
    app.add_url_rule('/logout', 'log_out', log_out, methods=['POST'])


def _login_page(guard, problem=None):
    path = security.local_path(flask.request.values.get('next')) or ''
    return flask.render_template('login.html', is_open=guard.is_open, problem=problem, next=path)
