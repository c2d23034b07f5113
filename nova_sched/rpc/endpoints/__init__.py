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
"""The RPC endpoints of the scheduler, one namespace in each file: they translate arguments, call
the engine, and translate results."""

from nova_sched.rpc.endpoints.baseapi import BaseApi
from nova_sched.rpc.endpoints.candidates import Candidates
from nova_sched.rpc.endpoints.claims import Claims
from nova_sched.rpc.endpoints.explain import Explain
from nova_sched.rpc.endpoints.groups import Groups
from nova_sched.rpc.endpoints.scheduler import Scheduling
from nova_sched.rpc.endpoints.stats import Stats


def all_of(scheduler):
    """Every endpoint of one scheduler."""
    return [
        Scheduling(scheduler),
        Stats(scheduler),
        Claims(scheduler),
        Candidates(scheduler),
        Explain(scheduler),
        Groups(scheduler),
        BaseApi(),
    ]
