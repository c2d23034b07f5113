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
"""What an endpoint's method is marked with; and its errors as RPC failures, of the class that the
caller knows, without a traceback in the log."""

import contextlib
import functools
import inspect
import logging

import oslo_messaging as messaging

from nova_sched import errors

LOG = logging.getLogger(__name__)

NOT_FOUND = 'No valid host was found. '
SHOWN = 255  # characters of a text that repeats what the caller sent


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
    """Turns a SchedError into a failure of the call ``what``: Nova's class for a refusal, the
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
    """Decorates an endpoint's method: its errors become RPC failures, and a missing or unknown
    argument is named."""
    signature = inspect.signature(method)
    _, _, *parameters = signature.parameters.values()
    names = {one.name for one in parameters}
    required = {one.name for one in parameters if one.default is one.empty}

    @functools.wraps(method)
    def answer(*args, **kwargs):
        with answered(method.__name__):
            # Binding arguments takes longer than to compare their names with those that there are.
            if len(args) != 2 or not required <= kwargs.keys() <= names:
                try:
                    signature.bind(*args, **kwargs)
                except TypeError as error:
                    why = str(error)[:SHOWN]  # it names the argument, which may be of any length
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
    """Returns the class of this package for a failure that came back over the bus; other failures
    are returned unchanged."""
    if isinstance(error, NovaNoValidHost):  # a bus inside this process passes the error itself
        return errors.NoValidHost(error.kwargs['reason'])
    if isinstance(error, errors.SchedError):
        return _plain(error)
    if error.exc_type == 'NoValidHost':
        return errors.NoValidHost(str(error.value).removeprefix(NOT_FOUND))
    return error


def _plain(error):
    """Returns the error without the server's traceback, which the bus adds by a subclass."""
    own = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return own(*error.args)
