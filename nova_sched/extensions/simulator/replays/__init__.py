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
"""Replays of public data sets through the engine, with and without departures, by several
policies.

::

    workloads -> a data set: the hosts' reports, and servers in order of arrival
    run       -> places each server through the engine, by a policy; a Course for policy and seed
    figures   <- the Courses of all policies and seeds: a table, a picture

Only time is simulated. Nothing is sent over a bus, and no server is built: a placed server is
confirmed at once. Filters, weighers, claims and the learned mix are those of the product.
"""
