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

    A service that an operator disables before or meanwhile stays as the operator sets it. Any
    scheduler may stand still between two steps while another one goes on: the rows say what is
    due, and a service that no row explains is enabled. ``rebalances`` is a
    db.rebalances.SqlRebalances; ``call`` runs a method in the loop.

    ``services`` has ``close(name, reason)``, which disables a service with this reason, unless an
    operator has disabled it, and returns whether it is disabled then; and ``open(name, reason)``,
    which enables one that a rebalance has closed with this reason, or any reason with None, and
    returns whether that is done. With False, the next pass tries it again.
    """

    def __init__(self, rebalances, cluster, call, services):
        self._rebalances, self._cluster = rebalances, cluster
        self._call, self._services = call, services

    def turn(self):
        """Close and open the hosts that are due."""
        # Before the rows: a host has its row before its service is disabled.
        reasons = self._call(self._reasons)
        for host, is_over in self._rebalances.closed_hosts():
            reason = reasons.pop(host.host, None)
            if is_over:
                # False: another rebalance has closed the host for longer.
                is_own = self._rebalances.set_closed(host, closed=False)
                if is_own and self._open(host.host, reason):
                    self._rebalances.drop_closed(host)
            elif not host.closed and self._services.close(host.host, _reason(host)):
                self._rebalances.set_closed(host)
        for name, reason in reasons.items():
            self._open(name, reason)

    def _open(self, name, reason):
        """Enable the service of a host. Return whether that is done.

        Nova enables a service whatever its reason is by then. If another rebalance has closed the
        host since the reason was read, it has a row, and is closed again.
        """
        is_done = self._services.open(name, reason)
        for host, is_over in self._rebalances.closed_hosts():
            if host.host == name and not is_over:
                closed = self._services.close(name, _reason(host))
                self._rebalances.set_closed(host, closed)
        return is_done

    def _reasons(self):
        """Host -> the reason why its service is disabled, of all that a rebalance has closed. Runs
        in the loop."""
        services = {
            name: self._cluster.service(name) for name in self._cluster.hosts_with_settings()
        }
        return {
            name: service.disabled_reason
            for name, service in services.items()
            if service.disabled and is_ours(service.disabled_reason)
        }


class OwnServices:
    """The services as the schedulers keep them. ``call`` runs a method in the loop."""

    def __init__(self, cluster, state_sync, call):
        self._cluster, self._state_sync, self._call = cluster, state_sync, call

    def close(self, name, reason):
        """See HostClosings. Return False if no such host is known."""
        # With this reason: a scheduler that is about to enable it knows another one.
        return self._call(
            self._set,
            name,
            True,
            reason,
            lambda service: not service.disabled or is_ours(service.disabled_reason),
        )

    def open(self, name, reason):
        """See HostClosings."""
        return self._call(
            self._set,
            name,
            False,
            None,
            lambda service: service.disabled and may_open(service.disabled_reason, reason),
        )

    def _set(self, name, disabled, reason, may):
        """Runs in the loop."""
        if disabled and not self._cluster.nodes_of(name):
            return False
        seen_s = self._cluster.service(name).seen_s
        self._state_sync.set_service(name, disabled, reason, None, seen_s, may)
        return True


def is_ours(reason):
    """Whether a rebalance has disabled a service for this reason."""
    return (reason or '').startswith(REASON)


def may_open(current, reason):
    """Whether a service that is disabled for the reason ``current`` is one that a rebalance has
    closed with this ``reason``, or any with None."""
    return is_ours(current) and reason in (None, current)


def _reason(host):
    until = datetime.datetime.fromtimestamp(host.until_s, datetime.UTC)
    return f'{REASON} {host.rebalance_uuid} until {until:%Y-%m-%dT%H:%M:%SZ}'
