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
"""What the requests to come make of the devices of a cloud: the value of holes, scarce models, and
the weight of whole blocks. ``device_potential`` is made of them.

The value of a hole is what the free part of a shared device is worth. A hole of ``f`` is worth
what the best requests for it take of it, less the prices of those of which too few will come.
Prices and values are the dual of a linear program: fill all holes with the requests that are
expected, and use most. Here they come from an annealed ascent, in which a hole takes each request
with a probability that follows from its gain.
"""

import time

import numpy as np

from nova_sched.extensions.optimize.packing.devices import FULL, DevicePotential

STEP = 10  # thousandths of a device in a level
LEVELS = 1000 // STEP + 1
ROUNDS = 60
FIRST, LAST, COLD = 100.0, 3.0, 1e-3  # temperatures, in thousandths; at the end the best item
HORIZON = 1.3  # demand to come, in idle devices of now
HORIZONS = (0.6, 0.7, 0.8, 0.9, 0.95)  # shares of the idle devices that will be asked for
MAX_SETS = 512  # unions of models that are looked at


def hole_values(holes, sizes, allowed, expected, rounds=ROUNDS, pause=lambda: None):
    """Return the value of a hole in thousandths, of shape (models, LEVELS), and the price of each
    item.

    ``holes``: the number of devices with that many free levels, of shape (models, LEVELS).
    ``sizes``: levels that each item takes; ``allowed``: whether a model serves it, of shape
    (models, items); ``expected``: how many of it will come. ``pause`` is called several times.
    """
    if not len(sizes):
        return np.zeros(holes.shape), np.zeros(0)
    order = np.argsort(sizes, kind='stable')
    sizes, expected = sizes[order], expected[order].astype(float)
    barred = np.where(allowed[:, order], 0.0, -np.inf)
    prices = np.zeros(len(sizes))
    for heat in np.geomspace(FIRST, LAST, rounds):
        _, chances = _forward(sizes, prices, barred, heat)
        pause()
        used = _backward(holes, sizes, chances)
        pause()
        with np.errstate(divide='ignore', invalid='ignore'):
            step = heat * np.log(used / expected)
        prices = np.clip(prices + np.nan_to_num(step, nan=0.0), 0.0, sizes * STEP)
    in_order = np.empty(len(prices))
    in_order[order] = prices
    return _forward(sizes, prices, barred, COLD)[0], in_order


def yield_processor():
    """Let another thread run that waits for the interpreter."""
    time.sleep(0.0005)


def _forward(sizes, prices, barred, heat):
    """The values, and by level the chances of each item, and of none, as (models, items + 1)."""
    models, count = len(barred), len(sizes)
    values = np.zeros((models, LEVELS))
    chances = np.zeros((LEVELS, models, count + 1))
    gains = barred + (sizes * STEP - prices)
    fitting = np.searchsorted(sizes, np.arange(LEVELS), side='right')
    for level in range(1, LEVELS):
        fits = fitting[level]
        gain = np.empty((models, fits + 1))
        gain[:, fits] = values[:, level - 1]
        if fits:
            np.add(gains[:, :fits], values[:, level - sizes[:fits]], out=gain[:, :fits])
        best = gain.max(axis=1, keepdims=True)
        odds = np.exp((gain - best) / heat)
        total = odds.sum(axis=1, keepdims=True)
        values[:, level] = (best + heat * np.log(total))[:, 0]
        odds /= total
        chances[level, :, :fits] = odds[:, :fits]
        chances[level, :, count] = odds[:, fits]
    return values, chances


def _backward(holes, sizes, chances):
    """How many of each item the holes take."""
    left, used = holes.astype(float), np.zeros(len(sizes))
    starts = np.flatnonzero(np.r_[True, sizes[1:] != sizes[:-1]])
    distinct = sizes[starts]
    for level in range(LEVELS - 1, 0, -1):
        flow = left[:, level, None] * chances[level]
        left[:, level - 1] += flow[:, -1]
        used += flow[:, :-1].sum(axis=0)
        fits = np.searchsorted(distinct, level, side='right')
        if fits:
            summed = np.add.reduceat(flow[:, :-1], starts, axis=1)
            left[:, level - distinct[:fits]] += summed[:, :fits]
    return used


def scarce_models(demand, idle, allowed):
    """Return the share of horizons at which each model is scarce, 0 to 1.

    ``demand``: the share of all demand that each list of models has; ``idle``: what is idle of
    each model, in the units that the shares are of; ``allowed``: which models a list names, of
    shape (lists, models). If the lists inside a set of models ask for more than it has idle, the
    models of the worst such set are scarce.
    """
    scarcity = np.zeros(len(idle))
    sets = _unions(allowed)
    inside = ~(allowed[None, :, :] & ~sets[:, None, :]).any(axis=2)
    use = inside @ demand
    has = sets @ idle
    for horizon in HORIZONS:
        missing = use * horizon * idle.sum() - has
        worst = int(missing.argmax()) if len(missing) else 0
        if len(missing) and missing[worst] > 1e-9:
            scarcity += sets[worst]
    return scarcity / len(HORIZONS)


def _unions(allowed):
    """All unions of the lists, as far as there are not too many: bools of shape (sets, models)."""
    known: dict[bytes, np.ndarray] = {}
    for row in allowed:
        for both in [row, *(row | other for other in list(known.values()))]:
            if both.any() and len(known) < MAX_SETS:
                known.setdefault(both.tobytes(), both)
    return np.array(list(known.values()), dtype=bool).reshape(-1, allowed.shape[1])


def block_weights(share, counts, blocks, per_device):
    """Return the weight of each class of whole devices in the potential of blocks.

    ``share`` of all requests for devices, ``counts``: devices of each, ``blocks``: how many of it
    fit the cloud now; ``per_device``: requests of any class that come until the idle devices are
    asked for once. A class of one device has no weight.
    """
    weights = np.zeros(len(share))
    for count in np.unique(counts[counts >= 2]):
        alike = counts == count
        of_count = share[alike].sum()
        expected = of_count * per_device
        with np.errstate(divide='ignore', invalid='ignore'):
            need = np.where(blocks[alike] > 0, expected / blocks[alike], np.inf)
        weights[alike] = share[alike] / of_count * np.minimum(1.0, need) ** 4
    return weights


def device_potential(items, sizes, free, models, free_of_nodes, pause=lambda: None):
    """Return the DevicePotential of these items and sizes on a cloud.

    ``free`` and ``models``: thousandths free of each device and its model, of shape
    (hosts, devices); ``free_of_nodes``: units of the nodes' resource classes. ``pause`` is called
    several times.
    """
    milli = items.milli[sizes.item] * sizes.count
    is_device = models >= 0
    idle = np.bincount(
        models[is_device], weights=free[is_device] / FULL, minlength=len(items.allowed)
    )
    values, scarce = np.zeros((len(idle), LEVELS)), np.zeros(len(idle))
    plain = DevicePotential(items, sizes)
    copies = np.minimum(*plain.copies(free_of_nodes, plain.devices(free, models)))
    blocks = np.zeros(len(milli))
    for resource_class in np.unique(items.class_of_model):
        asking = items.resource_class[sizes.item] == resource_class
        use = float(milli[asking] @ sizes.share[asking]) / FULL
        if use <= 0:
            continue
        of_class = np.flatnonzero(items.class_of_model == resource_class)
        # How many requests come until the idle devices are asked for once, times their share.
        coming = idle[of_class].sum() / use

        # The values of holes, by model and level.
        rate = np.bincount(
            sizes.item,
            weights=np.where(asking, sizes.share * sizes.count, 0.0),
            minlength=len(items.milli),
        )
        holes = np.zeros((len(of_class), LEVELS))
        for line, model in enumerate(of_class):
            holes[line] = np.bincount(free[models == model] // STEP, minlength=LEVELS)
        own = np.flatnonzero(items.resource_class == resource_class)
        values[of_class], _ = hole_values(
            holes,
            -(-items.milli[own] // STEP),
            items.allowed[np.ix_(of_class, own)],
            rate[own] * HORIZON * coming,
            pause=pause,
        )
        pause()

        # The share of horizons at which each model is scarce.
        allowed = items.allowed[np.ix_(of_class, sizes.item[asking])]
        lists, line_of = np.unique(allowed.T, axis=0, return_inverse=True)
        weights = sizes.share[asking] * milli[asking]
        demand = np.bincount(line_of.ravel(), weights=weights, minlength=len(lists))
        scarce[of_class] = scarce_models(demand / demand.sum(), idle[of_class], lists)
        pause()

        # The weights of sizes that ask for several whole devices.
        whole = asking & (items.milli[sizes.item] == FULL)
        blocks[whole] += block_weights(
            sizes.share[whole],
            sizes.count[whole],
            np.floor(copies[:, whole]).sum(axis=0),
            coming,
        )
    return DevicePotential(items, sizes, values, scarce, blocks)
