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
"""ImagePropertiesWeigher."""

import numpy as np

from nova_sched.conf import CONF, ratios
from nova_sched.weighers import Weigher


class ImagePropertiesWeigher(Weigher):
    """The number of instances on the host whose images share a property with the request's, summed
    over the properties.

    image_props_weight_setting sets the weight of each property. Without it, each property has
    weight 1; with it, a property that it does not name has weight 0. A multiplier of 0.0 in the
    options disables the rule, regardless of aggregates.
    """

    option = 'image_props_weight_multiplier'
    request_facts = ('image_properties',)

    def raw(self, hosts, rows, request):
        if not CONF.filter_scheduler.image_props_weight_multiplier:
            return None
        settings = dict(ratios('filter_scheduler', 'image_props_weight_setting'))
        weights = np.zeros(len(rows))
        for name, value in request.image_properties.items():
            factor = settings.get(name, 0.0) if settings else 1.0
            if factor:
                weights += factor * hosts.count_images(name, str(value))[rows]
        return weights
