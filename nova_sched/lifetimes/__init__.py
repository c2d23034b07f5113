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
"""How long servers last, learned from those that ended and those that run.

::

    Kind, Life -> whose counts a server is part of, and since when it runs
    ages       -> the steps of age in which ends are counted
    Ends       -> counts of ends, and of servers at risk, by kind and step
    Survival   -> made from Ends: how much longer a server of a kind and an age is expected to run

Times are in seconds, by the claim store's clock.
"""
