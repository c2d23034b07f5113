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
"""Assembles the API: the routes of the document, authentication, and common response headers."""

import dataclasses
import functools
import logging
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import flask
from oslo_middleware import HTTPProxyToWSGI, RequestId
from werkzeug.routing import BaseConverter

from nova_sched import extension
from nova_sched.api import faults, handlers, identity
from nova_sched.api.calls import ApiCall, Request, read_query
from nova_sched.api.document import OPERATIONS
from nova_sched.api.health import Readiness
from nova_sched.api.limits import Limits
from nova_sched.api.policies import AccessPolicy
from nova_sched.measures.catalogue import API_REQUESTS, API_SECONDS
from nova_sched.rpc.client import ExplainClient, GroupsClient
from nova_sched.tracing import KEY, TRACER, read

LOG = logging.getLogger(__name__)

OPEN = frozenset(operation.path for operation in OPERATIONS.values() if operation.is_open)


class Text(BaseConverter):
    """The rest of a path; it may contain slashes."""

    regex = '(?s:.+)'
    part_isolating = False


@dataclasses.dataclass(frozen=True, slots=True)
class Api:
    """What handlers are made with: the options, the Limits of the process, and the rights of
    callers.

    ``client_of(kind, wait_s=None, silence_s=None, service=None, patience_s=None)`` returns a
    client of that class: it waits so long for an answer, but only ``silence_s`` without a
    heartbeat. It counts as one of those who wait for the ``service`` (limits.Service; None: the
    schedulers), whose absence a call shows that fails within ``patience_s``. ``probe_of(kind)`` is
    one that waits briefly. ``database()`` returns the SQLAlchemy engine; it may raise BadConfig or
    StoreUnavailable. ``is_alone``: the bus ends at this process.
    """

    conf: Any
    limits: Limits
    policy: AccessPolicy
    client_of: Callable[..., Any]
    probe_of: Callable[[type], Any]
    database: Callable[[], Any]
    is_alone: bool = False


def make(api):
    """Return the REST API as a WSGI application. Raise BadConfig."""
    conf, policy = api.conf, api.policy
    rank_s = conf.api.external_scheduler_timeout
    groups, health = api.probe_of(GroupsClient), api.probe_of(ExplainClient).health
    handlers_by_tag = {
        'service': handlers.VersionHandlers(conf, Readiness(lambda: groups.list(limit=1), health)),
        'groups': handlers.GroupHandlers(api.client_of(GroupsClient), policy, conf.api.max_limit),
        'hosts': handlers.ExternalSchedulerHandlers(
            api.client_of(ExplainClient, rank_s).rank_hosts, policy, rank_s
        ),
    }
    handlers_by_tag = {**extension.united('handlers', api), **handlers_by_tag}
    count = functools.partial(api.limits.plans.count, policy)
    app = _application(handlers_by_tag, conf.api.max_body_size, count)
    guard = (
        identity.NoAuth(app)
        if conf.api.auth_strategy == 'noauth'
        else identity.KeystoneAuth(app, conf, api.limits.keystone)
    )

    def entrance(environ, start_response):
        inside = app if environ['PATH_INFO'] in OPEN else guard
        return inside(environ, start_response)

    return HTTPProxyToWSGI(RequestId(entrance), conf)


def _application(handlers_by_tag, max_body_size, count):
    """Routes, errors, and a log line for each request. The tag of an operation selects its
    handlers. ``count(context)`` counts a request for plans."""
    app = flask.Flask('nova_sched.api', static_folder=None)
    app.request_class = Request
    app.config.update(MAX_CONTENT_LENGTH=max_body_size, MAX_FORM_MEMORY_SIZE=None)
    app.url_map.converters['text'] = Text
    app.url_map.merge_slashes = False  # it would answer with a page that leads elsewhere
    for name, operation in OPERATIONS.items():
        handler = getattr(handlers_by_tag.get(operation.tag), name, None)
        if handler is None:
            LOG.error('The operation %s has no handler; it is left out', name)
            continue
        app.add_url_rule(
            operation.rule,
            name,
            _view(operation, handler, count),
            methods=[operation.method.upper()],
            provide_automatic_options=False,
            strict_slashes=True,
        )
    app.before_request(_begun)
    app.after_request(_ended)
    app.register_error_handler(Exception, lambda error: faults.of(error, flask.request.environ))
    return app


def _view(operation, handler, count):
    """The Flask view of an operation."""

    def answer(**_):
        request = flask.request
        context = identity.context(request.environ)
        if operation.is_counted:
            count(context)
        query = read_query(operation, request.args)
        parent = read({KEY: request.headers.get(KEY)})
        with TRACER.following(parent), TRACER.traced(request.endpoint, method=request.method):
            return handler(ApiCall(operation, request, context, query))

    return answer


def _begun():
    flask.g.begun = time.monotonic()


def _ended(response):
    response.headers.setdefault('Cache-Control', 'no-cache')
    # A proxy asks every few seconds.
    took_s = time.monotonic() - flask.g.begun
    operation = flask.request.endpoint or 'none'
    API_REQUESTS.add(operation, str(response.status_code))
    API_SECONDS.observe(took_s, operation)
    is_probe = flask.request.path.startswith('/healthcheck') and response.status_code < 400
    if not is_probe:
        LOG.info(
            '%s %s: %d, %.1f ms',
            flask.request.method,
            urllib.parse.quote(flask.request.path),  # it may have line breaks
            response.status_code,
            took_s * 1000,
        )
    return response
