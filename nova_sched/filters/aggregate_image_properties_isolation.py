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
"""AggregateImagePropertiesIsolation."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter
from nova_sched.filters.reasons import listed
from nova_sched.state.facts import LASTING
from nova_sched.state.host_aggregate import values


def isolating(request):
    """Return the image properties, as text, that aggregates may be restricted to: all that are
    set, except off and 0."""
    options = CONF.filter_scheduler
    namespace = options.aggregate_image_properties_isolation_namespace
    prefix = (
        namespace + options.aggregate_image_properties_isolation_separator if namespace else ''
    )
    return {
        name: str(value)
        for name, value in request.image_properties.items()
        if value and name.startswith(prefix)
    }


class AggregateImagePropertiesIsolation(Filter):
    """Image properties match the metadata of the host's aggregates that have the same names.

    A property that is not set, off or 0 matches any host.
    """

    for_tenants = 'their aggregates are for other images'
    run_filter_once_per_request = True
    RUN_ON_REBUILD = True
    host_facts = LASTING
    request_facts = ('image_properties',)

    def mask(self, hosts, request):
        fits = True
        for name, text in isolating(request).items():
            if name in hosts.aggregates.keys:
                fits = fits & hosts.aggregates.map(hosts.aggregate_set, admits(name, text))
        return fits

    def depends_on(self, request):
        return tuple(sorted(isolating(request).items()))

    def why(self, hosts, request, rows):
        sets = hosts.aggregates.distinct(hosts.aggregate_set[rows])
        causes = []
        for name, text in isolating(request).items():
            refused = {value for aggregates in sets if not admits(name, text)(aggregates)
                       for value in values(aggregates, name)}  # fmt: skip
            if refused:
                causes.append(
                    f'image property {name} is {text}, aggregates are for {listed(refused)}'
                )
        return '; '.join(causes)


def admits(name, text):
    """Return whether a host's aggregates accept images with that property."""
    return lambda aggregates: text in (values(aggregates, name) or {text})
