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
    rows, places = np.nonzero(fits & ~_repeated(state, fits))
    models, before = state.models[rows, places], state.milli[rows, places]
    devices = state.devices.picked(rows)
    potential.change(devices, np.arange(len(rows)), models, before, before - milli)
    found = potential.of(after, devices, rows) - state.potential[rows]
    found += SCARCITY * potential.scarce[models] * milli
    costs, chosen = np.full(len(fits), UNFIT), np.full(len(fits), -1)
    if len(fits) == 1 and len(rows):
        only = np.round(found, DIGITS).argmin()
        costs[0], chosen[0] = found[only], places[only]
        return costs, chosen
    best = np.lexsort((places, np.round(found, DIGITS), rows))
    first, at = np.unique(rows[best], return_index=True)
    costs[first], chosen[first] = found[best][at], places[best][at]
    return costs, chosen


def several_devices(potential, state, after, milli, count, fits):
    """Returns what the fullest devices that fit cost on each host."""
    enough = np.flatnonzero(np.count_nonzero(fits, axis=1) >= count)
    costs = np.full(len(fits), UNFIT)
    some, lines = state.picked(enough), np.arange(len(enough))
    left = np.where(fits[enough], some.milli, NEVER)
    extra = np.zeros(len(enough))
    for _ in range(count if len(enough) else 0):
        places = left.argmin(axis=1)
        models, before = some.models[lines, places], some.milli[lines, places]
        potential.change(some.devices, lines, models, before, before - milli)
        extra += SCARCITY * potential.scarce[models] * milli
        left[lines, places] = NEVER
    found = potential.of(after[enough], some.devices)
    costs[enough] = found - some.potential + extra
    return costs


def _repeated(state, fits):
    """Which devices are like an earlier one of the same host, of those that fit."""
    if len(fits) == 1:
        seen, again = set(), np.zeros(fits.shape, dtype=bool)
        lines = zip(state.milli[0].tolist(), state.models[0].tolist(), strict=True)
        for place, device in enumerate(lines):
            again[0, place] = device in seen
            seen.add(device)
        return again
    keys = np.where(fits, state.milli * (state.models.max(initial=0) + 1) + state.models, -1)
    return np.tril(keys[:, :, None] == keys[:, None, :], -1).any(axis=2)
