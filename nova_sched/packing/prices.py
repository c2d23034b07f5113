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
"""The value of holes: what the free part of a shared device is worth to the requests to come.

A hole of ``f`` is worth what the best requests for it take of it, less the prices of those of
which too few will come. Prices and values are the dual of a linear program: fill all holes with
the requests that are expected, and use most. Here they come from an annealed ascent, in which a
hole takes each request with a probability that follows from its gain.
"""

import time

import numpy as np

STEP = 10  # thousandths of a device in a level
LEVELS = 1000 // STEP + 1
ROUNDS = 60
FIRST, LAST, COLD = 100.0, 3.0, 1e-3  # temperatures, in thousandths; at the end the best item


def hole_values(holes, sizes, allowed, expected, rounds=ROUNDS, pause=lambda: None):
    """Returns the value of a hole in thousandths, of shape (models, LEVELS), and the price of each
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
