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
"""The plug-in for Heat: plans a whole group before the first server of a stack exists.

The folder is a plug-in directory: heat-engine loads it by ``plugin_dirs`` in heat.conf and needs
nothing else of this package. The loaded modules are part of ``heat.engine.plugins``, and import
each other from there.

    top_group           the resource by which a stack registers its servers as one group
    top_group_types     groups of servers, relations, and an AutoScalingGroup with an index
    top_group_members   reads the servers' descriptions from the stack itself
    top_group_contents  the resources of one stack, including nested and repeated ones
    top_group_answers   the errors of that API; without Heat
    top_group_client    the scheduler's REST API, and the cloud's flavors and images
"""
