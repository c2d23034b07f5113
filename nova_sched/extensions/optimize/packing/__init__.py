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
"""How much of the free capacity of each host the usual requests can still use: pure functions.

Arrays and plain values only: ``fragmentation_weigher.py`` reads the host state into them, and
``mix_learner.py`` learns the mix of requests. A whole device is 1000 thousandths, a shared
one less. A potential is what a host's free capacity loses because requests of the mix do not fit
it; a request costs the potential after it less the potential before it.

::

    mix               -> sizes of requests, and how often each was requested
    host_resources    -> hosts: what they have free, and the states that a table was applied to
    devices, machines -> the potentials of devices, and of NUMA cells and PCI devices
    prices            -> what the devices of a cloud are worth to the requests to come
    tables            -> all potentials of a mix on a cloud: what a request costs on a host
    scores            -> kept costs, up to date with the host state
"""
