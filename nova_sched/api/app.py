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

import functools
import logging
import time
import urllib.parse

import flask
from oslo_middleware import HTTPProxyToWSGI, RequestId
from werkzeug.routing import BaseConverter

from nova_sched.api import faults, handlers, identity
from nova_sched.api.calls import ApiCall, Request, read_query
from nova_sched.api.document import OPERATIONS
from nova_sched.api.health import Readiness
from nova_sched.api.limits import Limits
from nova_sched.api.policies import AccessPolicy
from nova_sched.measures.catalogue import API_REQUESTS, API_SECONDS
from nova_sched.tracing import KEY, TRACER, read

LOG = logging.getLogger(__name__)

OPEN = frozenset(one.path for one in OPERATIONS.values() if one.is_open)


class Text(BaseConverter):
    """The rest of a path; it may contain slashes."""

    regex = '(?s:.+)'
    part_isolating = False


def make(
    conf,
    backend,
    manager,
    probe=None,
    facts=lambda: None,
    rank=None,
    plan=None,
    rebalances=None,
    limits=None,
):
    """Return the API as a WSGI application. ``backend`` has the methods of the client of the RPC
    namespace `groups`, ``manager`` those of the namespace `queues`. ``probe``: the same as
    ``backend``, but it waits only briefly. ``facts()`` returns the answer of `explain.health`,
    ``rank`` and ``plan`` are the methods `rank_hosts` and `plan_moves` of clients of `explain`,
    ``rebalances`` is the client of the namespace `rebalances`. ``limits`` are the Limits of the
    process, if it serves more than this.

    Raise BadConfig.
    """
    policy, limits = AccessPolicy(conf), limits or Limits(conf)
    handlers_by_tag = {
        'service': handlers.VersionHandlers(
            conf, Readiness(lambda: (probe or backend).list(limit=1), facts)
        ),
        'groups': handlers.GroupHandlers(backend, policy, conf.api.max_limit),
        'queues': handlers.QueueHandlers(manager, policy, conf.api.max_limit),
        'hosts': handlers.ExternalSchedulerHandlers(
            rank, policy, conf.api.external_scheduler_timeout
        ),
        'rebalances': handlers.RebalanceHandlers(plan, rebalances, policy, conf.api.max_limit),
    }
    app = _application(
        handlers_by_tag, conf.api.max_body_size, functools.partial(limits.plans.count, policy)
    )
    guard = (
        identity.NoAuth(app)
        if conf.api.auth_strategy == 'noauth'
        else identity.KeystoneAuth(app, conf, limits.keystone)
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
        handler = getattr(handlers_by_tag[operation.tag], name)
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
