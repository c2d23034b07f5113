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
"""ImageTypeSupport, always on if [scheduler] query_placement_for_image_type_support is set."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter, image_traits
from nova_sched.state.facts import LASTING


class ImageTypeSupport(Filter):
    """The host can run images of this disk format: it has the trait COMPUTE_IMAGE_TYPE_<FORMAT>.

    An instance that boots from a volume has no image to run.
    """

    for_tenants = 'they do not support the format of the image'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('image_format', 'is_bfv')

    def mask(self, hosts, request):
        return image_traits.mask(hosts, self._traits(request))

    def depends_on(self, request):
        return self._traits(request)

    def why(self, hosts, request, rows):
        return image_traits.why(hosts, self._traits(request), rows)

    @staticmethod
    def _traits(request):
        if not CONF.scheduler.query_placement_for_image_type_support or request.is_bfv:
            return ()
        trait = image_traits.of_format(request.image_format)
        return (trait,) if trait else ()
