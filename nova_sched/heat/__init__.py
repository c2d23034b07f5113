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
"""The plug-in for Heat: whole groups, planned before a stack's first server exists.

The folder is a plug-in directory: heat-engine loads it by ``plugin_dirs`` in heat.conf and needs
nothing else of this package. What it loads are modules of ``heat.engine.plugins``, and so they
import each other.

    top_group               the resource by which a stack registers its servers as one group
    top_group_declarations  resources that only say something: groups of servers, relations between
    them top_group_scaling       an AutoScalingGroup whose members know which they are
    top_group_members       reads the servers' descriptions from the stack itself
    top_group_contents      the resources of one stack, nested ones among them top_group_kinds
    what resources are to placement top_group_repeats       what resource groups and scaling groups
    make many of top_group_errors        what is wrong with a stack top_group_clouds        what
    flavors and images are top_group_client        the scheduler's REST API
"""
