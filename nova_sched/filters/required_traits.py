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
"""RequiredTraits, always on: what Placement's traits do for Nova."""

from nova_sched.filters import Filter


class RequiredTraits(Filter):
    """The host has every required trait of flavor and image, and none of the forbidden ones."""

    run_filter_once_per_request = True

    def mask(self, hosts, request):
        fits = True
        for trait in request.required_traits:
            fits = fits & hosts.has_trait(trait)
        for trait in request.forbidden_traits:
            fits = fits & ~hosts.has_trait(trait)
        return fits
