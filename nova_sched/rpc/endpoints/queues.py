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
"""Namespaces `queues` 1.0, what a manager of queues is asked, and `catalogue` 1.0, what others are
told."""

import oslo_messaging as messaging

from nova_sched import errors
from nova_sched.rpc import words
from nova_sched.rpc.failures import expected


class Queues:
    target = messaging.Target(namespace='queues', version='1.0')

    def __init__(self, register):
        self._register = register

    @expected
    def catalogue(self, context, host=None):
        """A mapping of plain values, which queues.catalogue.Catalogue.from_plain reads.

        Beside it ``disabled``, whether the host takes no jobs, and ``aggregates``: those of the
        host, and those that name a zone, as mappings of id, name, uuid, metadata, and of hosts
        that one at most.
        """
        return self._register.plain(None if host is None else words.name(host, 'host'))

    @expected
    def flavor_create(self, context, flavor):
        """Add a flavor: a mapping of name, vcpus, memory_mb, and flavorid, root_gb, ephemeral_gb,
        swap (MiB), extra_specs. Returns it. An equal one may be there, and stays. Raises
        FlavorExists."""
        if not isinstance(flavor, dict):
            raise errors.InvalidRequest('flavor', f'{words.short(flavor)} is no mapping')
        return self._register.create(flavor)

    @expected
    def flavor_delete(self, context, name):
        """Take a flavor away; what waits in its queues goes to the scheduler. Raises
        FlavorNotFound."""
        self._register.delete(words.name(name, 'name'))

    @expected
    def flavor_list(self, context):
        """All ``flavors``, by name, and the ``version`` of the catalogue that they make."""
        version, flavors = self._register.flavors()
        return {'version': version, 'flavors': flavors}

    @expected
    def facts(self, context, marker=None, limit=None):
        """Each queue as a mapping: name, queue (that on the broker), ready, consumers; these two
        null if the broker has none.

        Those after the ``marker``, a name on the broker, and so many at most. Raises NotFound for
        a marker that is none.
        """
        after = None if marker is None else words.name(marker, 'marker')
        most = None if limit is None else words.number(limit, 'limit')
        return self._register.facts(after, most)


class CatalogueNews:
    """Of anybody who keeps a copy; ``hear(version)`` must not wait for anything."""

    target = messaging.Target(namespace='catalogue', version='1.0')

    def __init__(self, hear):
        self._hear = hear

    @expected
    def catalogue_changed(self, context, version):
        """The catalogue, or what it says of hosts, has changed. Nobody is waited for."""
        if isinstance(version, int):
            self._hear(version)
