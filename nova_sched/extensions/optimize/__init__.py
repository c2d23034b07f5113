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
"""Which servers go where, beyond one request: packing by the mix of requests, and plans of moves
between hosts, which are carried out.

packing has the weigher's model, mix_learner what it learns from; rebalance has the plans, planning
makes them of the host state, and moves carries them out.
"""

from nova_sched.extension import Extension


class Optimize(Extension):
    """FragmentationWeigher's tables, and rebalances."""

    def options(self):
        from nova_sched.extensions.optimize import conf

        return (conf,)

    def nouns(self):
        return {
            'rebalance': (
                'move servers between hosts',
                'nova_sched.extensions.optimize.rebalance_verbs:VERBS',
            ),
            'fragmentation': (
                'show how much of the free capacity usual requests can use',
                'nova_sched.extensions.optimize.fragmentation_verbs:VERBS',
            ),
        }

    def handlers(self, api):
        from nova_sched.extensions.optimize import rest

        return rest.handlers(api)

    def policies(self, rule):
        from nova_sched.extensions.optimize import rest

        return rest.policies(rule)

    def document(self):
        from nova_sched.api import document

        return document.read(__package__)

    def begin(self, scheduler):
        from nova_sched.extensions.optimize.optimizer import Optimizer

        return Optimizer(scheduler)
