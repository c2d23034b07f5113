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

import numpy as np

from nova_sched.filters import Filter, reasons


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

    def why(self, hosts, request, rows):
        said = []
        for trait in sorted(request.required_traits):
            has = hosts.has_trait(trait)
            if lacking := np.count_nonzero(~has[rows]):
                said.append((lacking, f'{trait} is required{_elsewhere(has, rows)}'))
        for trait in sorted(request.forbidden_traits):
            if there := np.count_nonzero(hosts.has_trait(trait)[rows]):
                said.append((there, f'{trait} is forbidden'))
        return '; '.join(text if number == len(rows) else f'{text} ({reasons.count(number, "host")})'
                         for number, text in said)  # fmt: skip


def _elsewhere(has, rows):
    """How many hosts have the trait, of all there are; not said of one host alone."""
    if len(rows) == 1:
        return ', the host lacks it'
    number = np.count_nonzero(has)
    return f', {number} of all {len(has)} hosts have it' if number else ', no host has it'
