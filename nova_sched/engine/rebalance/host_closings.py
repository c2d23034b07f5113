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
"""Hosts that take no new servers until a time, because a rebalance empties them."""

import datetime

REASON = 'closed by rebalance'  # the rebalance and the time follow, and both may change later


class HostClosings:
    """Disables the services of these hosts, and enables them when their time is over.

    A service that an operator disables before or meanwhile stays as the operator sets it.
    ``rebalances`` is a db.rebalances.SqlRebalances. ``services`` has ``disabled_reason(host)``,
    None for one that is enabled, and ``set(host, reason)``, which disables it; None enables it.
    """

    def __init__(self, rebalances, services):
        self._rebalances, self._services = rebalances, services

    def turn(self):
        """Close and open the hosts that are due."""
        for host, is_over in self._rebalances.closed_hosts():
            if is_over:
                self._open(host)
                self._rebalances.drop_closed(host)
            elif not host.closed:
                self._close(host)
                self._rebalances.set_closed(host)

    def _close(self, host):
        if self._services.disabled_reason(host.host) is None:
            self._services.set(host.host, _reason(host))

    def _open(self, host):
        if (self._services.disabled_reason(host.host) or '').startswith(REASON):
            self._services.set(host.host, None)


class OwnServices:
    """The services as the schedulers keep them. ``call`` runs a method in the loop."""

    def __init__(self, cluster, state_sync, call):
        self._cluster, self._state_sync, self._call = cluster, state_sync, call

    def disabled_reason(self, host):
        """Why a service is disabled, '' without a reason; None: it is enabled."""
        service = self._call(self._service, host)
        return (service.disabled_reason or '') if service.disabled else None

    def set(self, host, reason):
        """Disable a service with this reason; None enables it."""
        self._call(self._set, host, reason)

    def _service(self, host):
        self._state_sync.catch_up([], {})
        return self._cluster.service(host)

    def _set(self, host, reason):
        seen_s = self._cluster.service(host).seen_s
        self._state_sync.set_service(host, reason is not None, reason, None, seen_s)


def _reason(host):
    until = datetime.datetime.fromtimestamp(host.until_s, datetime.UTC)
    return f'{REASON} {host.rebalance_uuid} until {until:%Y-%m-%dT%H:%M:%SZ}'
