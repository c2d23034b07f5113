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
"""A filter and a weigher as they are written for Nova: one host state at a time."""

from acme_rules.options import CONF


class KeepFreeFilter:
    """Some memory stays free on each host, but for instances with the hint `use_reserve`."""

    run_filter_once_per_request = False
    RUN_ON_REBUILD = False

    def host_passes(self, host_state, spec_obj):
        if spec_obj.get_scheduler_hint('use_reserve') == 'true':
            return True
        left_mb = host_state.free_ram_mb - spec_obj.memory_mb
        return left_mb >= CONF.filter_scheduler.keep_free_mb


class SmallHostWeigher:
    """Hosts with fewer CPUs are better, so that the large ones stay free for large instances."""

    def weight_multiplier(self, host_state):
        return CONF.filter_scheduler.small_host_weight_multiplier

    def _weigh_object(self, host_state, weight_properties):
        return -host_state.vcpus_total
