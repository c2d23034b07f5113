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
"""The devices inside a host that a request takes: those that cost least."""

import numpy as np

from nova_sched.packing.device_potential import SCARCITY
from nova_sched.packing.models import NEVER

UNFIT = 1e6  # cost on a host where the devices do not suffice
DIGITS = 6  # a smaller difference of costs is none


def one_device(potential, state, after, milli, fits):
    """Returns what one device costs on each host, the best of those that differ, and its place.

    ``fits``: which devices can give so many thousandths; ``after``: free units that are left.
    """
    rows, places = np.nonzero(fits & state.distinct)
    models, before = state.models[rows, places], state.milli[rows, places]
    devices = potential.changed(state.devices[rows], models, before, before - milli)
    found = potential.of(after, devices, rows) - state.potential[rows]
    found += SCARCITY * potential.scarce[models] * milli
    costs, chosen = np.full(len(fits), UNFIT), np.full(len(fits), -1)
    order = np.lexsort((np.round(found, DIGITS), rows))
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = rows[1:] != rows[:-1]
    best, first = order[is_first], rows[is_first]
    costs[first], chosen[first] = found[best], places[best]
    return costs, chosen


def several_devices(potential, state, after, milli, count, fits):
    """Returns what the fullest devices that fit cost on each host."""
    enough = np.flatnonzero(np.count_nonzero(fits, axis=1) >= count)
    costs = np.full(len(fits), UNFIT)
    some, lines = state.picked(enough), np.arange(len(enough))
    left = np.where(fits[enough], some.milli, NEVER)
    extra, devices = np.zeros(len(enough)), some.devices
    for _ in range(count if len(enough) else 0):
        places = left.argmin(axis=1)
        models, before = some.models[lines, places], some.milli[lines, places]
        devices = potential.changed(devices, models, before, before - milli)
        extra += SCARCITY * potential.scarce[models] * milli
        left[lines, places] = NEVER
    found = potential.of(after[enough], devices)
    costs[enough] = found - some.potential + extra
    return costs


def distinct(milli, models):
    """Which devices are unlike the earlier ones of the same host."""
    keys = milli * (models.max(initial=0) + 2) + models
    return ~np.tril(keys[:, :, None] == keys[:, None, :], -1).any(axis=2)
