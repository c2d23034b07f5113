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
"""Groups: servers that are placed together, or not at all.

A group passes through these modules, from its template to its hosts::

    template/    text -> ``definition.Definition``, the members and policies (``template.read``)
    members/     a member -> the request that Nova would send (``member_spec.spec_of``)
    topology     the failure domain of every host at each level
    arrays/      members, policies and hosts as arrays (``problem.Problem``)
    joint        hosts for all members, or the reason why there are none (``plan``); the same for
                 a group that has servers, which move only if necessary (``place``)
      quick/       greedy search (``greedy.place``)
      exact/       the solver, in a separate process (``worker.Solver``)
      why          the reason: a count that fails, or policies that conflict
    process      a child process, for the solver and for the reader of templates
    limits       how long each part may take

``nova_sched.engine`` builds the problem, calls ``joint.place`` and claims the hosts.
"""
