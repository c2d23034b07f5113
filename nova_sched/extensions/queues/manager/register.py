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
"""Maintains the list of queues: from the flavors in the database to the broker and the other
processes."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova_sched import errors
from nova_sched.claims import Changes
from nova_sched.db.flavors import SqlFlavors
from nova_sched.extensions.queues.brokers import FALLBACK, RESULTS, Broker, of_flavor
from nova_sched.extensions.queues.catalogue import Catalogue, checked_flavor
from nova_sched.state.host_aggregate import HostAggregate

LOG = logging.getLogger(__name__)


class Register:
    """The current catalogue, whose version never decreases. May be used from any thread.

    ``specials`` are the texts of the option. ``read_changes()`` returns the Changes of a claim
    store since its last call; only aggregates and services are used. ``announce(version)`` sends a
    change event for the catalogue, or for its facts about hosts; it may raise NoAnswer. ``news``
    is set when there may be a change.
    """

    def __init__(
        self,
        flavors: SqlFlavors,
        specials: Iterable[str],
        broker: Broker,
        announce: Callable[[int], None],
        read_changes: Callable[[], Changes] = Changes,
    ):
        self._flavors, self._specials, self._broker = flavors, tuple(specials), broker
        self._announce, self._read_changes = announce, read_changes
        self.news = threading.Event()
        self._turn = threading.Lock()
        self._catalogue: Catalogue | None = None
        self._aggregates: tuple[HostAggregate, ...] = ()
        self._disabled: frozenset[str] = frozenset()  # hosts
        self._ending = set[str]()
        self._untold = False

    @property
    def catalogue(self) -> Catalogue:
        """Return the catalogue. Raises as ``refresh`` does, if there is none yet."""
        if self._catalogue is None:
            self.refresh()
        assert self._catalogue is not None
        return self._catalogue

    def refresh(self) -> None:
        """Apply changes from the database, send the pending change events, and delete the queues
        that are no longer in the catalogue: their jobs go to the fallback queue.

        Raises StoreUnavailable, BrokerUnavailable; InvalidRequest or BadConfig for flavors that
        are no longer valid; nothing is changed then.
        """
        with self._turn:
            changes = self._read_changes()
            if changes.aggregates is not None and changes.aggregates != self._aggregates:
                self._aggregates, self._untold = changes.aggregates, True
            if changes.services is not None:
                disabled = frozenset(
                    service.host for service in changes.services if service.disabled
                )
                self._untold |= disabled != self._disabled
                self._disabled = disabled
            version, rows = self._flavors.list()
            if self._catalogue is None or version > self._catalogue.version:
                self._follow(Catalogue.of(version, rows, self._specials))
            assert self._catalogue is not None
            if self._untold:
                try:
                    self._announce(self._catalogue.version)
                except errors.NoAnswer as error:
                    LOG.warning('A change of the catalogue is announced later: %s', error)
                else:
                    self._untold = False
            for name in sorted(self._ending):
                moved = self._broker.drop(of_flavor(name))
                self._ending.discard(name)
                LOG.info('Queue %s has ended; %d jobs of it go to the scheduler', name, moved)

    def _follow(self, new: Catalogue) -> None:
        """Declare new queues before messages are sent to them, and record the removed ones."""
        before = (
            set() if self._catalogue is None else {queue.name for queue in self._catalogue.queues}
        )
        after = {queue.name for queue in new.queues}
        self._broker.declare(of_flavor(name) for name in sorted(after - before))
        self._catalogue, self._untold = new, True
        self._ending = (self._ending | before) - after
        LOG.info('The catalogue is at version %d, with %d queues', new.version, len(after))

    # Called by other components.

    def hear(self, version: int) -> None:
        """Handle a manager's change event for that version: read the flavors if this one
        is older."""
        if self._catalogue is None or version > self._catalogue.version:
            self.news.set()

    def plain(self, host: str | None = None) -> dict[str, Any]:
        """Return the catalogue as plain values, with ``disabled`` and ``aggregates`` of the host.

        ``disabled`` is whether the host takes no jobs. ``aggregates`` are those of the host, and
        those that name a zone; they list no host but this one.
        """
        aggregates = [
            {
                'id': aggregate.id,
                'name': aggregate.name,
                'uuid': aggregate.uuid,
                'metadata': dict(aggregate.metadata),
                'hosts': [host] if host in aggregate.hosts else [],
            }
            for aggregate in self._aggregates
            if host in aggregate.hosts or aggregate.availability_zone
        ]
        return {
            **self.catalogue.to_plain(),
            'disabled': host in self._disabled,
            'aggregates': aggregates,
        }

    def create(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Add a flavor; ``flavorid`` defaults to its name. Returns it, or an equal existing one.

        Raises FlavorExists, and InvalidRequest for an invalid flavor.
        """
        flavor = checked_flavor(row, self._flavors.now_s())
        Catalogue.of(0, [flavor], self._specials)
        is_new = self._flavors.create(flavor)
        self.refresh()
        if is_new:
            return flavor
        return next(
            (known for known in self.flavors()[1] if known['name'] == flavor['name']), flavor
        )

    def delete(self, name: str) -> None:
        """Remove a flavor. Raises FlavorNotFound."""
        self._flavors.delete(name)
        self.refresh()

    def flavors(self) -> tuple[int, list[dict[str, Any]]]:
        """Return the version of the list of flavors, and all of them, by name."""
        version, flavors = self._flavors.list()
        return version, list(flavors)

    def facts(self, marker: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return each queue with its ``name``, ``queue``, ``ready`` and ``consumers``.

        ``queue`` is its name on the broker, and ``ready`` the number of waiting messages.
        ``ready`` and ``consumers`` are None if the broker does not have the queue. The fallback
        and results queues are first. ``marker`` is the name on the broker after which the list
        starts, ``limit`` its maximum length. Raises NotFound for the marker.
        """
        flavors = [(of_flavor(queue.name), str(queue)) for queue in self.catalogue.queues]
        named = dict([(FALLBACK, FALLBACK), (RESULTS, RESULTS), *flavors])
        listed = list(named)
        if marker is not None:
            if marker not in named:
                raise errors.NotFound(f'Queue {marker}')
            listed = listed[listed.index(marker) + 1 :]
        rows = []
        for queue in listed[:limit]:
            counts = self._broker.facts(queue)
            rows.append(
                {
                    'name': named[queue],
                    'queue': queue,
                    'ready': counts.ready if counts else None,
                    'consumers': counts.consumers if counts else None,
                }
            )
        return rows
