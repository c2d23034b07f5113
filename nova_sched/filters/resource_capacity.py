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
"""ResourceCapacity, always on: the equivalent of Placement's inventories."""

from nova_sched.claim import PCPU, VCPU
from nova_sched.conf import CONF
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import OWN_HOSTS, HostFacts


class ResourceCapacity(Filter):
    """Every requested resource class is free: (total - reserved) x ratio, less claims and
    unclaimed usage.

    No single instance gets more than the physical total (or the inventory's max_unit), whatever
    the ratio. ChildProviders judges the classes that only devices below the host have. Shared CPUs
    replace dedicated ones on a host without a separate set, unless [workarounds]
    disable_fallback_pcpu_query forbids it. On its own host, a resized instance needs the sum of
    both sizes.
    """

    for_tenants = 'they do not have enough free resources'
    host_facts = HostFacts.AMOUNTS | HostFacts.MEMBERS | HostFacts.PROVIDERS
    request_facts = ('resources', 'fallback_vcpus', OWN_HOSTS)

    by_class = True

    def mask(self, hosts, request):
        fits = True
        for resource_class in request.resources:
            fits = fits & self._gives(hosts, request, resource_class)
        return fits

    def gives(self, hosts, resource_class, units):
        return _or_below(hosts, resource_class, hosts.fits(resource_class, units))

    @staticmethod
    def _gives(hosts, request, name):
        fits = hosts.fits(name, request.resources[name])
        for row, (_, room) in hosts.growing(request, name).items():
            fits[row] = room
        fits = _or_below(hosts, name, fits)
        if name == PCPU and _may_share(request):
            fits = fits | (~hosts.has_class(PCPU) & hosts.fits(VCPU, request.fallback_vcpus))
        return fits

    def why(self, hosts, request, rows):
        lacking = {name: ~self._gives(hosts, request, name)[rows] for name in request.resources}
        of_all = [name for name, mask in lacking.items() if mask.all()]
        return '; '.join(
            self._short(hosts, _dimension(hosts, request, name, rows[lacking[name]]), not of_all)
            for name in of_all or lacking
            if lacking[name].any()
        )

    @staticmethod
    def _short(hosts, dimension, some):
        """Return the reason for one dimension, over the rows that lack it; ``some``: other rows
        lack something else."""
        name, wanted, rows = dimension
        text, column = reasons.amount(name, wanted), hosts.resources.get(name)
        if column is None or not column.largest[rows].any():
            return f'{text} asked, {"the host has" if len(rows) == 1 else "these hosts have"} none'
        free, largest = column.free[rows], column.largest[rows]
        if ((free >= wanted) & (largest >= wanted)).any():
            return (
                f'{text} asked, which is not a multiple of what is given, or less than the least'
            )
        return reasons.short(
            text, wanted, free, largest, reasons.count(len(rows), 'host') if some else ''
        )

    def nearest(self, hosts, request, rows):
        columns = (
            (amount, hosts.resources.get(name)) for name, amount in request.resources.items()
        )
        return reasons.nearest(
            rows,
            *(
                (amount, column.free[rows], column.largest[rows])
                for amount, column in columns
                if column is not None
            ),
        )


def _or_below(hosts, name, fits):
    """Return these rows, and those where only devices have the class."""
    if name not in hosts.child_classes:
        return fits
    return fits | (~hosts.has_class(name) & hosts.has_below(name))


def _may_share(request):
    """Return whether shared CPUs may replace dedicated ones on hosts without a separate set."""
    return request.fallback_vcpus and not CONF.workarounds.disable_fallback_pcpu_query


def _dimension(hosts, request, name, rows):
    """Return the actual shortage: class, amount, rows."""
    if name == PCPU and _may_share(request):
        sharing = rows[~hosts.has_class(PCPU)[rows]]
        if len(sharing) == len(rows):
            return VCPU, request.fallback_vcpus, rows
    wanted = request.resources[name]
    if len(rows) == 1 and (growth := hosts.growing(request, name).get(int(rows[0]))):
        both, _ = growth
        if both > hosts.resources[name].largest[rows[0]]:
            wanted = both
    return name, wanted, rows
