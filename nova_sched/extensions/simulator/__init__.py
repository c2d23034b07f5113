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
r"""Simulated compute nodes and conductors over the real interfaces, and the replay of a trace.

::

    trace -> replay -> conductor -> select_destinations, claim_alternate ...
                  \--> hosts ----> update_resource_stats, update_aggregates ...
                   \-> watch, report        session.audit <- the store, or the answers to the hosts

Only departures use simulated time. Everything else, including liveness, is real: the scheduler
does not know that this is a simulation.
"""
