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
"""Clients of the cloud's services, which log in with keystoneauth."""

import contextlib
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1 import session as keystone_session

from nova_sched import errors
from nova_sched.conf import services

TOO_MUCH = 408, 429  # statuses that ask the caller to come again
SHOWN = 500  # characters of an answer that an error repeats


class Client:
    """Requests to one service, through an ``adapter``. Its methods may be called from any thread,
    and each is one or a few requests, without retries. ``timeouts_s`` are those of a connection
    and of an answer.

    A kind of client has the group of its options, the errors of translated(), and those of its
    service's own answers.
    """

    GROUP: str
    UNAVAILABLE: Any
    REFUSED: Any

    def __init__(self, adapter, timeouts_s):
        self._adapter, self._timeouts_s = adapter, timeouts_s

    @classmethod
    def of_options(cls, conf, connections, timeouts_s, **words):
        """The client of the options in its group; see ``adapter``."""
        return cls(adapter(conf, cls.GROUP, connections, timeouts_s, **words), timeouts_s)

    def _get(self, path, what=None, timeouts_s=None, **query):
        response = self._request('GET', path, what, timeouts_s, params=query)
        try:
            return response.json()
        except ValueError:
            raise self.UNAVAILABLE(f'its answer to GET {path} is not JSON') from None

    def _send(self, method, path, body, what=None, timeouts_s=None):
        # A repeat is the caller's: it knows what the first request may have done.
        never = {'connect_retries': 0, 'status_code_retries': 0}
        self._request(method, path, what, timeouts_s, json=body, **never)

    def _request(self, method, path, what, timeouts_s, **words):
        with translated(f'{method} {path}', self.GROUP, self.UNAVAILABLE, self.REFUSED):
            response = self._adapter.request(
                path, method, raise_exc=False, timeout=timeouts_s or self._timeouts_s, **words
            )
            if response.status_code >= 400:
                why = f'{method} {path}: {response.status_code}: {self._told(response)}'
                if may_pass(response.status_code):
                    raise self.UNAVAILABLE(why)
                raise self._refusal(why, response, what)
        return response

    def _told(self, response):
        """What an answer with an error status says."""
        try:
            text = str(self._words(response.json()))
        except (ValueError, LookupError, TypeError, AttributeError):
            text = response.text
        return ' '.join(text.split())[:SHOWN]

    @staticmethod
    def _words(document):
        """The service's words in the document of its answer. Raises LookupError, or another such
        error, if they are not there."""
        raise LookupError

    def _refusal(self, why, response, _what):
        """The error of an answer that is final; ``what`` the request is about, if that may not
        exist."""
        return self.REFUSED(why, response.status_code)


def adapter(conf, group, connections, timeouts_s, **words):
    """An adapter of the keystoneauth options of this group, with ``connections`` that are kept.
    Raises BadConfig; sends no request. ``timeouts_s`` are those of a connection and of an answer,
    for each request without its own limits, as the log-in is. ``words`` are more arguments of the
    adapter."""
    if section := conf[group].auth_section:  # this group has the account
        conf.register_opts(services.auth_options(), group=section)
    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        session = loading.load_session_from_conf_options(conf, group, auth=auth)
        client = loading.load_adapter_from_conf_options(conf, group, session=session, **words)
    except (exceptions.ClientException, ValueError, OSError) as error:
        raise errors.BadConfig(f'[{group}]', str(error)) from error
    if auth is None:
        raise errors.BadConfig(f'[{section or group}] auth_type', 'it is not set')
    # All threads wait for the log-in, which has no limits of its own. The option is one number,
    # for both.
    session.timeout = timeouts_s
    keep = keystone_session.TCPKeepAliveAdapter(pool_maxsize=connections)
    for scheme in ('http://', 'https://'):
        session.session.mount(scheme, keep)
    return client


def timeouts_s(section):
    """Seconds to wait for a connection and for an answer, of the options of a service."""
    if section.timeout:
        return section.timeout, section.timeout
    return section.connect_timeout, section.read_timeout


def may_pass(status):
    """Whether a request with this HTTP status may succeed if it is repeated."""
    return status >= 500 or status in TOO_MUCH


@contextlib.contextmanager
def translated(what, group, unavailable, refused):
    """Turn errors of keystoneauth, Keystone and the connection into those of a client:
    ``unavailable(why)`` if the outcome is not known, else ``refused(why, status)``.

    ``what`` is the request, ``group`` the group of its options.
    """
    try:
        yield
    except exceptions.HttpError as error:  # raised by the log-in: Keystone has answered
        why, status = f'{what}: Keystone: {error}', error.http_status
        raise unavailable(why) if may_pass(status) else refused(why, status) from error
    except (exceptions.ConnectionError, exceptions.DiscoveryFailure) as error:
        raise unavailable(f'{what}: {error}') from error
    except exceptions.ClientException as error:
        raise refused(f'{what}: {error}; check the options of [{group}]', None) from error
