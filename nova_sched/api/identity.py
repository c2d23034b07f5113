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
"""Identifies the caller: by a Keystone token, or without authentication by request headers."""

import logging

import werkzeug
from keystoneauth1.exceptions import ClientException
from keystonemiddleware import auth_token
from keystonemiddleware.opts import list_auth_token_opts
from oslo_context.context import RequestContext
from werkzeug import exceptions
from werkzeug.datastructures import WWWAuthenticate

from nova_sched import errors
from nova_sched.api import faults

LOG = logging.getLogger(__name__)

ADMIN = 'admin'
ROLES = ['member', 'reader']
ADMITTED = 'nova_sched.admitted'
REALM = 'nova_sched'
WAIT_S, RETRIES = 5, 1  # for each answer of Keystone, and after a failed connection


def context(environ):
    """The caller that the headers name, after one of the middlewares below has accepted them."""
    return RequestContext.from_environ(environ)


class NoAuth:
    """Accepts every caller. X-Auth-Token is `user:project`, or `user` together with X-Project-Id.

    The user `admin` has the role of that name. X-Roles and OpenStack-System-Scope are accepted,
    too.
    """

    def __init__(self, app):
        self._app = app

    def __call__(self, environ, start_response):
        token, project = environ.get('HTTP_X_AUTH_TOKEN', ''), environ.get('HTTP_X_PROJECT_ID', '')
        if not (token or project):
            why = 'Identify the caller with X-Auth-Token: USER:PROJECT'
            refusal = exceptions.Unauthorized(
                why, www_authenticate=WWWAuthenticate('noauth', {'realm': REALM})
            )
            return faults.of(refusal, environ)(environ, start_response)
        user, _, named = token.partition(':')
        environ['HTTP_X_USER_ID'] = user or project
        if 'HTTP_OPENSTACK_SYSTEM_SCOPE' not in environ:
            environ['HTTP_X_PROJECT_ID'] = project or named or user
        roles = [ADMIN, *ROLES] if user == ADMIN else ROLES
        environ.setdefault('HTTP_X_ROLES', ','.join(roles))
        return self._app(environ, start_response)


class KeystoneAuth:
    """Validates each token with Keystone. A request that its middleware refuses gets an error
    response of this API. ``keystone``: a limits.Service."""

    def __init__(self, app, conf, keystone):
        self._app, self._keystone = app, keystone
        try:
            self._middleware = auth_token.AuthProtocol(
                admit, {'oslo_config_config': conf, **_short_waits(conf)}
            )
        except ClientException as error:
            raise errors.BadConfig('[keystone_authtoken]', str(error)) from None
        section = conf.keystone_authtoken.auth_section or 'keystone_authtoken'
        if not conf[section].auth_type:
            why = (
                'it is not set, so no token can be validated; for trials, set [api] '
                'auth_strategy = noauth'
            )
            raise errors.BadConfig(f'[{section}] auth_type', why)

    def __call__(self, environ, start_response):
        # The middleware calls start_response itself, with its own body, when it refuses a request.
        answer = []

        def start(status, headers, exc_info=None):  # noqa: ARG001, its form is that of WSGI
            answer[:] = [int(status.partition(' ')[0]), headers]

        try:
            with self._keystone.place():
                self._middleware(environ, start)
        except errors.ServiceBusy as error:
            return faults.of(error, environ)(environ, start_response)
        except ClientException as error:
            LOG.error('Keystone cannot be asked: %s', error)
            answer[:] = [503, []]
        if ADMITTED in environ:
            return self._app(environ, start_response)
        return _refusal(*answer, environ)(environ, start_response)


def admit(environ, start_response):
    """The application behind the middleware: the request goes on when Keystone is not waited for
    any more."""
    environ[ADMITTED] = True
    start_response('204 No Content', [])
    return []


def _short_waits(conf):
    """Settings of the middleware where the operator has made none: a request holds a thread while
    it waits."""
    for group, options in list_auth_token_opts():
        conf.register_opts(options, group=group)
    usual = {'http_connect_timeout': WAIT_S, 'http_request_max_retries': RETRIES}
    return {
        name: value
        for name, value in usual.items()
        if (setting := conf.get_location(name, 'keystone_authtoken')) is None
        or setting.location.name == 'opt_default'
    }


def _refusal(status, headers, environ):
    why = 'The token is missing or not valid.' if status == 401 else 'Keystone does not answer.'
    answer: werkzeug.Response = faults.response(status, faults.code_of(status), why, environ)
    answer.headers.extend((name, value) for name, value in headers if name in faults.KEPT)
    return answer
