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
"""Weighers that were written for Nova, run on the rows that survived."""

import inspect
import types

import numpy as np

from nova_sched.weighers import Weigher


class ForeignWeigher(Weigher):
    """A Nova weigher object in the weigher chain.

    If it derives from Nova's base class, it weighs all hosts in one call, as that class defines.
    If it has only ``_weigh_object``, it weighs host by host.
    """

    def __init__(self, nova_weigher):
        self._weigher = nova_weigher
        self.minval = getattr(nova_weigher, 'minval', None)
        self.maxval = getattr(nova_weigher, 'maxval', None)

    @property
    def name(self):
        return type(self._weigher).__name__

    def raw(self, hosts, rows, request):
        states = [hosts.state(row) for row in rows]
        if not hasattr(self._weigher, 'weigh_objects'):
            weigh = self._weigher._weigh_object
            return np.array([weigh(state, request.read_spec()) for state in states], dtype=float)
        objects = [types.SimpleNamespace(obj=state, weight=0.0) for state in states]
        weights = np.array(self._weigher.weigh_objects(objects, request.read_spec()), dtype=float)
        # Nova's base class computes the bounds while it weighs.
        self.minval = getattr(self._weigher, 'minval', None)
        self.maxval = getattr(self._weigher, 'maxval', None)
        return weights

    def multiplier(self, hosts, rows):
        return np.array(
            [self._weigher.weight_multiplier(hosts.state(row)) for row in rows], dtype=float
        )


def adopt(plugin):
    """Return a weigher of this project unchanged, and a weigher that was written for Nova
    wrapped."""
    rule = plugin() if inspect.isclass(plugin) else plugin
    return rule if isinstance(rule, Weigher) else ForeignWeigher(rule)
