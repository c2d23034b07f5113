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

LOG = logging.getLogger(__name__)


class ServiceSwitch:
    """The services of HostClosings. ``api`` is a ComputeApi.

    What Nova refuses is logged and left as it is: it must not keep moves from starting.
    """

    def __init__(self, api):
        self._api = api

    def disabled_reason(self, host):
        """Why a service is disabled, '' without a reason or if Nova does not tell; None: it is
        enabled. Raises NovaUnavailable."""
        try:
            _, is_disabled, reason = self._api.service(host)
        except (errors.NotFound, errors.NovaRefused) as error:
            _log(host, error)
            return ''
        return (reason or '') if is_disabled else None

    def set(self, host, reason):
        """Disable a service with this reason; None enables it. Raises NovaUnavailable."""
        try:
            uuid, _, _ = self._api.service(host)
            self._api.set_service(uuid, reason)
        except (errors.NotFound, errors.NovaRefused) as error:
            _log(host, error)


def _log(host, error):
    LOG.warning('Host %s cannot be closed or opened by a rebalance: %s', host, error)
