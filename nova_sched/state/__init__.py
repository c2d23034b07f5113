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
"""The cluster as the scheduler sees it, held as columns.

Rules ask ``hosts.Hosts`` (all rows) or ``one_host.OneHost`` (one host state of Nova's): both
answer the same questions. ``cluster.Cluster`` is the only writer. What goes in is a
``report.Report``, wherever it comes from; what is asked is a ``request.Request``.
"""
