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
"""Weighers: how suitable each surviving host is. One rule per file, each a column of raw numbers.

The contract: ``raw(hosts, rows, request)`` returns a float for each of the given rows, or None for
no opinion. ``normalize`` and ``multiplier`` then apply the scale 0..1 and the multiplier. The
methods that Nova calls on its weighers are derived from these.
"""

import functools

import numpy as np

from nova_sched.conf import CONF
from nova_sched.state.one_host import OneHost
from nova_sched.state.spec import SpecRequest

ONE_ROW = np.zeros(1, dtype=np.intp)


class Weigher:
    """Base of all weighers.

    ``minval`` and ``maxval`` are bounds of the scale; None: the lowest or highest weight of the
    round. ``option`` is the multiplier's name in the options of ``group``. ``key`` is the
    aggregate metadata key that overrides it; empty: the same name. ``sign`` reverses the order.
    ``load`` states that claims change the weight. Among hosts that differ only in such weights,
    one of several schedulers may choose another host than the best (``engine.decide``).
    ``request_facts`` are the facts that it reads of a request (``state.facts.fact_of``); None:
    everything, the message too. ``per_request``: the weights are computed again for each request,
    because they follow its facts, or time, too closely to be kept. It is the name of a column of
    hosts: of two rows, that with the higher value there never has a lower raw weight. ``version``
    rises when raw weights change although neither hosts nor requests do.
    """

    minval: float | None = None
    maxval: float | None = None
    group = 'filter_scheduler'
    option = ''
    key = ''
    sign = 1.0
    load = False
    per_request: str | None = None
    version = 0
    request_facts: tuple[str, ...] | None = None

    @property
    def name(self):
        return type(self).__name__

    def raw(self, hosts, rows, request):
        """Return the raw weight of each of the rows; None: all are equal.

        ``hosts`` may be a view of some hosts (``Hosts.what_if``).
        Whether it is None depends on the request and options only, and the weight of a row on no
        other row.
        """
        raise NotImplementedError

    def device(self, hosts, row, request):
        """Return the UUID of the child provider that the request had best take on a row; None: no
        opinion."""
        return

    def multiplier(self, hosts, rows):
        """Return the multiplier of each row, or one number for all."""
        default = getattr(self._options, self.option)
        value = hosts.aggregate_number(self.key or self.option, default, float)
        return self.sign * (value[rows] if isinstance(value, np.ndarray) else value)

    @functools.cached_property
    def _options(self):
        """The options of its group. Their values are read at each use."""
        return CONF[self.group]

    # Nova's weigher interface.

    def weight_multiplier(self, host_state):
        """Return the multiplier for one Nova-like host state."""
        value = self.multiplier(OneHost(host_state), ONE_ROW)
        return float(value[0] if isinstance(value, np.ndarray) else value)

    def _weigh_object(self, host_state, weight_properties):
        """Return the raw weight of one Nova-like host state for a RequestSpec."""
        weights = self.raw(OneHost(host_state), ONE_ROW, SpecRequest(weight_properties))
        return 0.0 if weights is None else float(weights[0])

    def weigh_objects(self, weighed_obj_list, weight_properties):
        """Return the raw weights of Nova's weighed objects, none below ``minval``."""
        weights = [
            self._weigh_object(weighed.obj, weight_properties) for weighed in weighed_obj_list
        ]
        return weights if self.minval is None else [max(weight, self.minval) for weight in weights]


def normalize(weights, minval=None, maxval=None):
    """Return weights on a scale from 0 to 1.

    Without bounds the lowest is 0 and the highest 1. With ``minval``, lower weights are raised to
    it first. If lowest and highest are then equal, all weights are 0.
    """
    return scaled_by(*bounded(weights, minval, maxval)) if len(weights) else weights


def bounded(weights, minval, maxval):
    """Return weights, none below ``minval``, and the lower and the upper bound of their scale."""
    lowest = weights.min()
    if minval is not None and lowest < minval:
        weights = np.maximum(weights, minval)
    low = float(lowest) if minval is None else minval
    return weights, low, float(weights.max()) if maxval is None else maxval


def scaled_by(weights, low, high):
    """Return new weights, from 0 at the lower to 1 at the upper bound of a scale; all are 0 if
    the bounds are equal."""
    if high == low:
        return np.zeros(len(weights))
    scaled = weights - low if low else weights
    return scaled / (high - low)
