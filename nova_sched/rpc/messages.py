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
"""Messages of the bus: read with their objects, dispatched to the methods of the endpoints, and
answered; errors as RPC failures of the class that the caller knows, without a traceback in the
log."""

import contextlib
import functools
import inspect
import logging
import re

import oslo_messaging as messaging
from oslo_context.context import RequestContext
from oslo_messaging.rpc.dispatcher import PingEndpoint

from nova_sched import errors, objects, words
from nova_sched.engine.clock import NO_CALL, handling
from nova_sched.engine.loop import Deferred
from nova_sched.tracing import KEY, OSPROFILER, TRACER, read

LOG = logging.getLogger(__name__)

NOT_FOUND = 'No valid host was found. '
MAX_SHOWN = 255  # characters of a text that repeats what the caller sent
# The key of a context of this package for the seconds that its caller waits for an answer.
TIMEOUT_KEY = 'nova_sched_patience_s'
# Keys that a context of this package sends; Nova's sends more, and all of them are accepted.
IGNORED = frozenset(['user_identity', 'service_catalog', TIMEOUT_KEY, KEY, OSPROFILER])
VERSION = re.compile(r'[0-9]{1,9}(\.[0-9]{1,9}){1,2}')
UNTRACED = contextlib.nullcontext()
MAX_WAIT_S = 10**6  # seconds that a caller may wait at most: a thread cannot sleep for any time


# Errors as failures, and marks of methods.


class NovaNoValidHost(Exception):
    """Nova's exception of that name. Nova's client rebuilds it from class, module, arguments and
    kwargs."""

    def __init__(self, reason):
        super().__init__(NOT_FOUND + reason)
        self.kwargs = {'reason': reason, 'code': 500}


NovaNoValidHost.__module__ = 'nova.exception'
NovaNoValidHost.__name__ = NovaNoValidHost.__qualname__ = 'NoValidHost'


@contextlib.contextmanager
def answered(what):
    """Turn a SchedError into a failure of the call ``what``: Nova's class for a refusal, the
    class of this package otherwise."""
    try:
        try:
            yield
        except errors.NoValidHost as refusal:
            raise NovaNoValidHost(refusal.reason) from None
        except errors.SchedError as error:
            # A caller may name an object that it expects to be gone, to make sure of that: INFO is
            # enough.
            level = logging.INFO if isinstance(error, errors.NotFound) else logging.WARNING
            LOG.log(level, '%s refused: %s', what, error)
            raise
    except (errors.SchedError, NovaNoValidHost):
        raise messaging.ExpectedException from None


def expected(method):
    """Decorate an endpoint's method: its errors become RPC failures, and a missing or unknown
    argument is named."""
    signature = inspect.signature(method)
    _, _, *parameters = signature.parameters.values()
    names = {parameter.name for parameter in parameters}
    required = {parameter.name for parameter in parameters if parameter.default is parameter.empty}

    @functools.wraps(method)
    def answer(*args, **kwargs):
        with answered(method.__name__):
            # Binding arguments takes longer than to compare their names with those that there are.
            if len(args) != 2 or not required <= kwargs.keys() <= names:
                try:
                    signature.bind(*args, **kwargs)
                except TypeError as error:
                    # It names the argument, which may be of any length.
                    why = str(error)[:MAX_SHOWN]
                    raise errors.InvalidRequest(f'arguments of {method.__name__}', why) from None
            return method(*args, **kwargs)

    return messaging.expose(answer)


def begins(method):
    """Decorator for a method of an endpoint that never waits: it returns its result at once, or a
    Deferred."""
    method.begins = True
    return method


def once(method):
    """Decorator for a method of an endpoint that must not be repeated.

    Its message is acknowledged before it is handled, so that the bus never delivers it again. If
    the process ends meanwhile, its caller gets no answer.
    """
    method.once = True
    return method


def known(error):
    """Return the class of this package for a failure that came back over the bus; other failures
    are returned unchanged."""
    if isinstance(error, NovaNoValidHost):  # a bus inside this process passes the error itself
        return errors.NoValidHost(error.kwargs['reason'])
    if isinstance(error, errors.SchedError):
        # Without the server's traceback, which the bus adds by a subclass.
        own = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        return own(*error.args)
    if error.exc_type == 'NoValidHost':
        return errors.NoValidHost(str(error.value).removeprefix(NOT_FOUND))
    return error


# Arguments, answers and contexts.


class Serializer(messaging.Serializer):
    """Versioned objects in any nest of plain values, and the request context.

    A context is made once for each message and stays with its thread, so that oslo.log shows the
    request id on every line. Its token is never logged. ``timeout_s`` is how many seconds a
    client waits.
    """

    def __init__(self, timeout_s=None):
        super().__init__()
        self._more = {} if timeout_s is None else {TIMEOUT_KEY: timeout_s}

    def serialize_entity(self, ctxt, entity):
        return objects.to_primitive(entity)

    def deserialize_entity(self, ctxt, entity):
        return objects.from_primitive(entity)

    def serialize_context(self, ctxt):
        plain = ctxt.to_dict() if isinstance(ctxt, RequestContext) else dict(ctxt or {})
        parent = TRACER.parent
        return {**plain, **self._more, **({} if parent is None else {KEY: parent.text})}

    def deserialize_context(self, ctxt):
        known = {name: value for name, value in (ctxt or {}).items() if name not in IGNORED}
        if not words.is_name(known.get('request_id')):
            known['request_id'] = None  # one is generated
        context = RequestContext.from_dict(known)
        context.timestamp = known.get('timestamp')  # of Nova's contexts, by the clock of its API
        return context


class PlainSerializer(Serializer):
    """The same for messages that have no objects. It takes a third of the time."""

    def serialize_entity(self, ctxt, entity):
        return entity


class ServerSerializer(Serializer):
    """The serializer of a server: reports an argument that cannot be read as an error of the
    sender."""

    def deserialize_entity(self, ctxt, entity):
        with answered('A message'):
            words.check_text(entity)
            return objects.from_primitive(entity)


# Calls of the endpoints.


class Ping:
    """The answer to a ping, as that of oslo.messaging with [DEFAULT] rpc_ping_enabled."""

    target = messaging.Target()

    @messaging.expose
    @begins
    def oslo_rpc_server_ping(self, context, **_arguments):
        return 'pong'


class Dispatcher(messaging.RPCDispatcher):
    """oslo.messaging's dispatcher, with checks: the original assumes that a message has the form
    that its client gives it.

    The original compares names that may not be text. It starts a thread that sends heartbeats
    before it selects an endpoint, ends that thread only if it found one, and fails if the timeout
    is not a number. ``pauses`` (engine.clock) tell how long the callers of messages wait.
    ``waits``: for an answer that the loop has still to decide.
    """

    waits = True

    def __init__(self, endpoints, serializer, access_policy, pauses=None, timeout_s=60.0):
        super().__init__(endpoints, serializer, access_policy)
        # The original's endpoint has no target, and may not be called where methods are exposed.
        self.endpoints = [
            Ping() if isinstance(endpoint, PingEndpoint) else endpoint
            for endpoint in self.endpoints
        ]
        self._pauses, self._timeout_s = pauses, timeout_s

    def dispatch(self, incoming):
        """Return the answer. Raises ExpectedException (InvalidRequest for a message of another
        form), NoSuchMethod, or UnsupportedVersion."""
        with answered('A message'):
            _check(incoming)
        received = getattr(incoming, 'received', None) or self.received(incoming)
        message = incoming.message
        method, version = message.get('method'), message.get('version', '1.0')
        if not any(
            self._is_namespace(endpoint.target, message.get('namespace'))
            and self._is_compatible(endpoint.target, version)
            and hasattr(endpoint, method)
            and self.access_policy.is_allowed(endpoint, method)
            for endpoint in self.endpoints
        ):
            incoming.client_timeout = None  # it is refused at once: no heartbeats are needed
        with handling(received):
            return super().dispatch(incoming)

    def _do_dispatch(self, endpoint, method, ctxt, args):
        context = self.serializer.deserialize_context(ctxt)
        read_entity = self.serializer.deserialize_entity
        given = {name: read_entity(context, value) for name, value in args.items()}
        with continued(ctxt) if TRACER.sink else UNTRACED:
            result = getattr(endpoint, method)(context, **given)
            if isinstance(result, Deferred):
                if not self.waits:
                    return self._later(result, method, context, ctxt)
                with answered(method):
                    result = result.result()
        return self.serializer.serialize_entity(context, result)

    def _later(self, deferred, method, context, ctxt):
        """The Deferred of the serialized answer."""

        def finish():
            context.update_store()  # for the log of the thread that runs this
            with continued(ctxt) if TRACER.sink else UNTRACED, answered(method):
                return self.serializer.serialize_entity(context, deferred.result())

        return deferred.then(finish)

    def received(self, incoming):
        """The Received of a message: its caller sends how long it waits, or waits as Nova does."""
        if self._pauses is None:
            return NO_CALL
        silence_s = _seconds(incoming.client_timeout)
        timeout_s = _seconds(incoming.ctxt.get(TIMEOUT_KEY))
        is_call = getattr(incoming, 'reply_q', None) or getattr(incoming, '_reply_q', None)
        if is_call and silence_s is None and timeout_s is None:
            timeout_s = self._timeout_s
        return self._pauses.received(timeout_s, silence_s)


def _seconds(value):
    """A time to wait that a message names; None for a value that is not one."""
    return float(value) if type(value) in (int, float) and 0 < value <= MAX_WAIT_S else None


def _check(incoming):
    """Check that a message has the form of an RPC message. Raises InvalidRequest."""
    message = incoming.message
    if not isinstance(message, dict):
        raise errors.InvalidRequest('message', f'{words.short(message)} is not a mapping')
    if not isinstance(incoming.ctxt, dict):
        raise errors.InvalidRequest('context', f'{words.short(incoming.ctxt)} is not a mapping')
    words.name(message.get('method'), 'method')
    if message.get('namespace') is not None:
        words.name(message['namespace'], 'namespace')
    version = message.get('version', '1.0')
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        raise errors.InvalidRequest(
            'version', f'{words.short(version)} is not a version such as 1.0'
        )
    if not isinstance(message.get('args', {}), dict):
        raise errors.InvalidRequest('args', f'{words.short(message["args"])} is not a mapping')
    if _seconds(incoming.client_timeout) is None:
        incoming.client_timeout = None


def continued(ctxt):
    """In this block, what the thread does continues the trace of the message."""
    return TRACER.following(read(ctxt))


class DirectDispatcher(Dispatcher):
    """``dispatch`` returns the answer, or a Deferred of it."""

    waits = False

    def dispatch(self, incoming):
        # The server sends the heartbeats; the original would start a thread for them.
        incoming.client_timeout = None
        return super().dispatch(incoming)

    def begins(self, message):
        """Whether the message is for a method that does not wait."""
        return self._is_marked(message, 'begins')

    def is_once(self, message):
        """Whether the message is for a method that must not be repeated."""
        return self._is_marked(message, 'once')

    def _is_marked(self, message, mark):
        method, namespace = message.get('method'), message.get('namespace')
        return isinstance(method, str) and any(
            self._is_namespace(endpoint.target, namespace)
            and getattr(getattr(endpoint, method, None), mark, False)
            for endpoint in self.endpoints
            if hasattr(endpoint, 'target')
        )
