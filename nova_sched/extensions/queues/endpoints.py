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
"""The namespaces `queues` 1.0, calls to a manager of queues, and `catalogue` 1.0, its casts to
other processes."""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.rpc.messages import expected


class QueuesEndpoint:
    target = messaging.Target(namespace='queues', version='1.0')

    def __init__(self, register):
        self._register = register

    @expected
    def catalogue(self, context, host=None):
        """A mapping of plain values, which queues.catalogue.Catalogue.from_plain reads.

        In addition ``disabled``, whether the host takes no jobs, and ``aggregates``: those of the
        host, and those that name a zone, as mappings of id, name, uuid, metadata, and hosts (that
        host at most).
        """
        return self._register.plain(None if host is None else words.name(host, 'host'))

    @expected
    def flavor_create(self, context, flavor):
        """Add a flavor: a mapping of name, vcpus, memory_mb, and flavorid, root_gb, ephemeral_gb,
        swap (MiB), extra_specs. Returns it. An equal flavor that exists already stays. Raises
        FlavorExists."""
        if not isinstance(flavor, dict):
            raise errors.InvalidRequest('flavor', f'{words.short(flavor)} is not a mapping')
        return self._register.create(flavor)

    @expected
    def flavor_delete(self, context, name):
        """Remove a flavor; the jobs that wait in its queues go to the scheduler. Raises
        FlavorNotFound."""
        self._register.delete(words.name(name, 'name'))

    @expected
    def flavor_list(self, context):
        """All ``flavors``, by name, and the ``version`` of their catalogue."""
        version, flavors = self._register.flavors()
        return {'version': version, 'flavors': flavors}

    @expected
    def facts(self, context, marker=None, limit=None):
        """Each queue as a mapping: name, queue (that on the broker), ready, consumers. The last
        two are null if the broker does not have the queue.

        Returns at most ``limit`` queues after the ``marker``, a name on the broker. Raises
        NotFound for an unknown marker.
        """
        after = None if marker is None else words.name(marker, 'marker')
        most = None if limit is None else words.number(limit, 'limit')
        return self._register.facts(after, most)


class CatalogueEndpoint:
    """The endpoint of each process that keeps a copy; ``hear(version)`` must not block."""

    target = messaging.Target(namespace='catalogue', version='1.0')

    def __init__(self, hear):
        self._hear = hear

    @expected
    def catalogue_changed(self, context, version):
        """The catalogue, or its facts about hosts, have changed. A cast: the sender does not
        wait."""
        if isinstance(version, int):
            self._hear(version)
