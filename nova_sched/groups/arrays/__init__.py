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
"""The group problem as arrays, for every search.

``problem.Problem`` is the input, ``policies.broken`` the check of every result::

    problem    members, hosts and rules as numbers
    policies   the meaning of each kind of policy: breaches, costs, final check
    compile    ``compile``: the problem as classes of interchangeable units over live hosts, and as
               blocks of members that must share a domain
      layout     live hosts, sorted by domain
      active     rules that may bind, and what they allow during an attempt
    tally      an attempt: units are placed and removed
    bounds     ``first``: proves by counting that there is no placement
"""
