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
"""How an error leaves by the bus: under the class that the caller knows, and without a traceback in our log."""

import functools
import logging

import oslo_messaging as messaging

from nova_sched import errors

LOG = logging.getLogger(__name__)

NOT_FOUND = 'No valid host was found. '


class NoValidHost(Exception):
    """Nova's exception of that name, as its client rebuilds it from class, module, arguments and kwargs."""

    def __init__(self, reason):
        super().__init__(NOT_FOUND + reason)
        self.kwargs = {'reason': reason, 'code': 500}


NoValidHost.__module__ = 'nova.exception'


def expected(method):
    """An endpoint's method whose errors are answers: Nova's class for a refusal, ours for the rest."""

    @functools.wraps(method)
    def answer(self, context, *args, **kwargs):
        try:
            try:
                return method(self, context, *args, **kwargs)
            except errors.NoValidHost as refusal:
                raise NoValidHost(refusal.reason) from None
        except (errors.SchedError, NoValidHost) as error:
            if not isinstance(error, NoValidHost):
                LOG.warning('%s refused: %s', method.__name__, error)
            raise messaging.ExpectedException from None

    return answer


def known(error):
    """Our own class for a failure that came back over the bus; the failure itself if it is not ours."""
    if isinstance(error, NoValidHost):  # a bus inside this process hands over the error itself
        return errors.NoValidHost(error.kwargs['reason'])
    if error.exc_type == 'NoValidHost':
        return errors.NoValidHost(str(error.value).removeprefix(NOT_FOUND))
    return error
