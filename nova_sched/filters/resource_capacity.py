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
"""ResourceCapacity, always on: what Placement's inventories do for Nova."""

from nova_sched.filters import Filter, reasons


class ResourceCapacity(Filter):
    """Every resource class asked for is free: (total - reserved) x ratio, less claims and foreign use.

    No single instance gets more than the physical total (or the inventory's max_unit), whatever the ratio.
    """

    def mask(self, hosts, request):
        fits = True
        for resource_class, amount in request.resources.items():
            fits = fits & hosts.fits(resource_class, amount)
        return fits

    def why(self, hosts, request, rows):
        lacking = {name: ~hosts.fits(name, amount)[rows] for name, amount in request.resources.items()}
        of_all = [name for name, mask in lacking.items() if mask.all()]
        return '; '.join(
            self._short(hosts, name, request.resources[name], rows[lacking[name]], not of_all)
            for name in of_all or lacking
            if lacking[name].any()
        )

    def _short(self, hosts, name, wanted, rows, some):
        """One dimension, over the rows that lack it; ``some``: others lack something else."""
        asked, column = reasons.amount(name, wanted), hosts.resources.get(name)
        if column is None or not column.largest[rows].any():
            return f'{asked} asked, {"the host has" if len(rows) == 1 else "these hosts have"} none'
        free, largest = column.free[rows], column.largest[rows]
        if ((free >= wanted) & (largest >= wanted)).any():
            return f'{asked} asked, which is no multiple of what is given, or less than the least'
        return reasons.short(asked, wanted, free, largest, reasons.count(len(rows), 'host') if some else '')

    def nearest(self, hosts, request, rows):
        columns = ((amount, hosts.resources.get(name)) for name, amount in request.resources.items())
        return reasons.nearest(rows, *((amount, column.free[rows], column.largest[rows])
                                       for amount, column in columns if column is not None))  # fmt: skip
