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
"""ImageMetadata, always on if [scheduler] image_metadata_prefilter is set."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter, image_traits
from nova_sched.state.facts import LASTING


class ImageMetadata(Filter):
    """The host supports the image's properties: architecture, buses, models of video and network.

    Each property has a trait for each of its values; see image_traits.
    """

    for_tenants = 'they lack traits that the image needs'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('image_properties',)

    def mask(self, hosts, request):
        return image_traits.mask(hosts, self._traits(request))

    def depends_on(self, request):
        return self._traits(request)

    def why(self, hosts, request, rows):
        return image_traits.why(hosts, self._traits(request), rows)

    @staticmethod
    def _traits(request):
        if not CONF.scheduler.image_metadata_prefilter:
            return frozenset()
        return image_traits.of_properties(request.image_properties)
