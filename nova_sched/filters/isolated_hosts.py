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
"""IsolatedHostsFilter."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter
from nova_sched.filters.reasons import count
from nova_sched.state.facts import LASTING


def isolated(request):
    """Return whether the image is one of isolated_images; false for a request without an
    image."""
    return request.image_id in CONF.filter_scheduler.isolated_images


class IsolatedHostsFilter(Filter):
    """Images of isolated_images run on isolated_hosts only.

    With restrict_isolated_hosts_to_isolated_images, these hosts run no other images.
    """

    for_tenants = 'they are kept for other images'
    run_filter_once_per_request = True
    RUN_ON_REBUILD = True
    host_facts = LASTING
    request_facts = ('image_id',)

    def mask(self, hosts, request):
        options = CONF.filter_scheduler
        if isolated(request):
            return hosts.named(options.isolated_hosts)
        if options.isolated_hosts and options.restrict_isolated_hosts_to_isolated_images:
            return ~hosts.named(options.isolated_hosts)
        return True

    def depends_on(self, request):
        options = CONF.filter_scheduler
        return (
            isolated(request),
            tuple(options.isolated_hosts),
            options.restrict_isolated_hosts_to_isolated_images,
        )

    def why(self, hosts, request, rows):
        kept = f'{count(len(rows), "host")} {"is" if len(rows) == 1 else "are"}'
        if isolated(request):
            return f'the image is isolated, {kept} not kept for isolated images'
        return f'the image is not isolated, {kept} kept for isolated images'
