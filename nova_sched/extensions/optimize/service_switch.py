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
"""Disables and enables Nova's compute services, for hosts that a rebalance closes."""

import logging

from nova_sched import errors
from nova_sched.extensions.optimize.moves.host_closings import is_ours, may_open
from nova_sched.logs import Problems

LOG = logging.getLogger(__name__)


class ServiceSwitch:
    """The services of HostClosings. ``api`` is a ComputeApi.

    A request that Nova refuses is logged and given up; one that it cannot carry out now is logged
    and left for the next pass. Neither must keep other hosts or moves from their turn: the cell of
    one host may be down for long.
    """

    def __init__(self, api):
        self._api, self._problems = api, Problems(LOG)

    def close(self, name, reason):
        """See HostClosings. Returns True also if Nova refuses it."""
        return self._try(self._close, name, reason)

    def open(self, name, reason):
        """See HostClosings. Returns True also if Nova refuses it."""
        return self._try(self._open, name, reason)

    def _close(self, name, reason):
        uuid, is_disabled, reason_now = self._api.service(name)
        if not is_disabled or is_ours(reason_now):
            # With this reason: a scheduler that is about to enable it knows another one.
            self._api.set_service(uuid, reason)

    def _open(self, name, reason):
        uuid, is_disabled, reason_now = self._api.service(name)
        if is_disabled and may_open(reason_now, reason):
            self._api.set_service(uuid, None)

    def _try(self, work, name, reason):
        """Returns False if it has to be tried again."""
        try:
            work(name, reason)
        except (errors.NotFound, errors.NovaRefused, errors.NovaUnavailable) as error:
            self._problems.begin(
                name,
                'Host %s cannot be closed or opened by a rebalance: %s',
                name,
                error,
                reason=type(error).__name__,
            )
            return not isinstance(error, errors.NovaUnavailable)
        self._problems.end(name, 'Host %s can be closed or opened again', name)
        return True
