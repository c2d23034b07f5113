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
"""Which models of devices, and which whole blocks of devices, the requests to come run short
of."""

import numpy as np

HORIZONS = (0.6, 0.7, 0.8, 0.9, 0.95)  # shares of the idle devices that will be asked for
MOST_SETS = 512  # unions of models that are looked at


def scarce_models(demand, idle, allowed):
    """Returns the share of horizons at which each model is scarce, 0 to 1.

    ``demand``: the share of all demand that each list of models has; ``idle``: what is idle of
    each model, in the units that the shares are of; ``allowed``: which models a list names, of
    shape (lists, models). If the lists inside a set of models ask for more than it has idle, the
    models of the worst such set are scarce.
    """
    found = np.zeros(len(idle))
    sets = _unions(allowed)
    inside = ~(allowed[None, :, :] & ~sets[:, None, :]).any(axis=2)
    asked = inside @ demand
    has = sets @ idle
    for horizon in HORIZONS:
        missing = asked * horizon * idle.sum() - has
        worst = int(missing.argmax()) if len(missing) else 0
        if len(missing) and missing[worst] > 1e-9:
            found += sets[worst]
    return found / len(HORIZONS)


def _unions(allowed):
    """All unions of the lists, as far as there are not too many: bools of shape (sets, models)."""
    known: dict[bytes, np.ndarray] = {}
    for row in allowed:
        for both in [row, *(row | other for other in list(known.values()))]:
            if both.any() and len(known) < MOST_SETS:
                known.setdefault(both.tobytes(), both)
    return np.array(list(known.values()), dtype=bool).reshape(-1, allowed.shape[1])


def block_weights(share, counts, blocks, per_device):
    """Returns the weight of each class of whole devices in the potential of blocks.

    ``share`` of all requests for devices, ``counts``: devices of each, ``blocks``: how many of it
    fit the fleet now; ``per_device``: requests of any class that come until the idle devices are
    asked for once. A class of one device has no weight.
    """
    found = np.zeros(len(share))
    for count in np.unique(counts[counts >= 2]):
        alike = counts == count
        of_count = share[alike].sum()
        expected = of_count * per_device
        with np.errstate(divide='ignore', invalid='ignore'):
            need = np.where(blocks[alike] > 0, expected / blocks[alike], np.inf)
        found[alike] = share[alike] / of_count * np.minimum(1.0, need) ** 4
    return found
