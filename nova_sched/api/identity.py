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
"""Who calls: by a token of Keystone, or by what the caller says where that is enough."""

import logging

import werkzeug
from keystoneauth1.exceptions import ClientException
from keystonemiddleware import auth_token
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


def context(environ):
    """Whom the headers name, once a guard below has let them pass."""
    return RequestContext.from_environ(environ)


class NoAuth:
    """Believes whoever calls: X-Auth-Token is `user:project`, or `user` with X-Project-Id beside
    it.

    The user `admin` has the role of that name. X-Roles and OpenStack-System-Scope are believed,
    too.
    """

    def __init__(self, app):
        self._app = app

    def __call__(self, environ, start_response):
        token, project = environ.get('HTTP_X_AUTH_TOKEN', ''), environ.get('HTTP_X_PROJECT_ID', '')
        if not (token or project):
            why = 'Say who calls: X-Auth-Token: USER:PROJECT'
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


class Keystone:
    """Asks Keystone about each token; what its middleware refuses leaves as any error of ours
    does."""

    def __init__(self, app, conf):
        self._app = app
        try:
            self._judge = auth_token.AuthProtocol(self._admit, {'oslo_config_config': conf})
        except ClientException as error:
            raise errors.BadConfig('[keystone_authtoken]', str(error)) from None
        section = conf.keystone_authtoken.auth_section or 'keystone_authtoken'
        if not conf[section].auth_type:
            why = 'it is not set, so no token can be judged; for trials, say [api] auth_strategy = noauth'
            raise errors.BadConfig(f'[{section}] auth_type', why)

    def _admit(self, environ, start_response):
        environ[ADMITTED] = True
        return self._app(environ, start_response)

    def __call__(self, environ, start_response):
        # The middleware calls start_response itself, with its own words, where it lets nobody
        # pass.
        answer = []

        def start(status, headers, exc_info=None):
            if ADMITTED in environ:
                return start_response(status, headers, exc_info)
            answer[:] = [int(status.partition(' ')[0]), headers]
            return None

        try:
            body = self._judge(environ, start)
        except ClientException as error:
            LOG.error('Keystone cannot be asked: %s', error)
            answer[:] = [503, []]
        if ADMITTED in environ:
            return body
        return _refusal(*answer, environ)(environ, start_response)


def _refusal(status, headers, environ):
    why = (
        'The token is missing, or not a good one.'
        if status == 401
        else 'Keystone does not answer.'
    )
    made: werkzeug.Response = faults.response(status, faults.code_of(status), why, environ)
    made.headers.extend((name, value) for name, value in headers if name in faults.KEPT)
    return made
