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
"""Kept weights of one kind of request, with bounds by block of rows."""

import math

import numpy as np

from nova_sched.engine.decide import WinnerWeights

BLOCK = 64  # rows that share bounds of their weights
IN_BLOCK = np.arange(BLOCK)
FIRST_BLOCKS = 4  # blocks that are weighed at first
MAX_SINGLE_BLOCKS = 4  # up to this many are shown faster one by one


class BlockWeights:
    """Raw weights of all rows, of shape (weighers, rows), and their lowest and highest by block,
    of the rows that pass. ``passing`` is a bool for each row.

    The weighers may raise errors; then it must not be used again.
    """

    def __init__(self, weighers, hosts, request, passing):
        self._hosts, self._request = hosts, request
        self._latest = request  # that the weighers per request weigh by
        blocks = -(-len(hosts) // BLOCK)
        self._passing = np.zeros(blocks * BLOCK, dtype=bool)
        self._passing[: len(hosts)] = passing
        rows = np.flatnonzero(self._passing)
        self._left = len(rows)
        self._weighers, columns, multipliers = [], [], []
        for weigher in weighers:
            multiplier = weigher.multiplier(hosts, slice(None))
            if isinstance(multiplier, float) and not multiplier:
                continue
            raw = weigher.raw(hosts, rows, request)
            if raw is not None:
                self._weighers.append(weigher)
                columns.append(raw)
                multipliers.append(multiplier)
        self._followed = [
            line for line, weigher in enumerate(self._weighers) if weigher.per_request is not None
        ]
        self._least = _column(weigher.minval for weigher in self._weighers)
        self._most = _column(weigher.maxval for weigher in self._weighers)
        self._is_fixed = ~np.isnan(self._least), ~np.isnan(self._most)
        self._raw = np.zeros((len(columns), blocks * BLOCK))
        if columns:
            self._raw[:, rows] = np.fmax(np.array(columns, dtype=float), self._least)
        self._low, self._high = np.zeros((2, len(columns), blocks))
        # What no weight of a block exceeds, if that is known for the present scale; -inf for a
        # block of which no row passes.
        self._limit, self._is_known = np.zeros(blocks), np.zeros(blocks, dtype=bool)
        self._is_empty = np.zeros(blocks, dtype=bool)
        self._scaled_by = None
        self._varied = None
        if all(isinstance(multiplier, float) for multiplier in multipliers):
            self._multipliers = np.array(multipliers).reshape(-1, 1)
        else:
            self._multipliers = np.ones((len(columns), blocks * BLOCK))
            for line, multiplier in enumerate(multipliers):
                self._multipliers[line, : len(hosts)] = multiplier
            by_block = self._multipliers.reshape(len(columns), blocks, BLOCK)
            self._varied = by_block.min(axis=2), by_block.max(axis=2)
        self._show_blocks(slice(None))

    @property
    def bytes(self):
        arrays = self._raw, self._low, self._high, self._multipliers, self._passing
        return sum(array.nbytes for array in arrays)

    def weigh_again(self, rows, view, passing):
        """Weigh rows that changed, ascending; ``view`` are the hosts of these rows, and
        ``passing`` is a bool for each of them."""
        left = np.flatnonzero(passing)
        self._left += len(left) - int(np.count_nonzero(self._passing[rows]))
        self._passing[rows] = passing
        if len(left) and self._weighers:
            raw = np.empty((len(self._weighers), len(left)))
            for line, weigher in enumerate(self._weighers):
                if weigher.per_request is None:
                    raw[line] = weigher.raw(view, left, self._request)
                else:
                    raw[line] = 0.0  # never read
            self._raw[:, rows[left]] = np.fmax(raw, self._least)
        blocks = list(dict.fromkeys((rows // BLOCK).tolist()))
        if len(blocks) > MAX_SINGLE_BLOCKS:
            self._show_blocks(np.array(blocks))
        else:
            for block in blocks:
                self._show_block(block)

    def follow(self, request):
        """Weigh for this request by the weighers that are ``per_request``.

        Of each block only the rows that have the bounds are weighed: the column that orders the
        weights tells which these are.
        """
        self._latest = request
        for line in self._followed:
            column = getattr(self._hosts, self._weighers[line].per_request)
            padded = np.zeros(len(self._passing))
            padded[: len(column)] = column
            by_block, passing = padded.reshape(-1, BLOCK), self._passing.reshape(-1, BLOCK)
            first = np.arange(len(by_block)) * BLOCK
            lowest = first + np.where(passing, by_block, np.inf).argmin(axis=1)
            highest = first + np.where(passing, by_block, -np.inf).argmax(axis=1)
            bounds = self._raw_now(line, np.concatenate([lowest, highest])).reshape(2, -1)
            self._low[line] = np.where(self._is_empty, np.inf, bounds[0])
            self._high[line] = np.where(self._is_empty, -np.inf, bounds[1])
            self._is_known[:] = self._is_empty

    def _raw_now(self, line, rows):
        """Raw weights for the latest request."""
        raw = self._weighers[line].raw(self._hosts, rows, self._latest)
        return np.fmax(raw, self._least[line])

    def _raw_of(self, rows):
        """Raw weights of rows, of shape (weighers, rows)."""
        raw = self._raw.take(rows, axis=1)
        for line in self._followed:
            raw[line] = self._raw_now(line, rows)
        return raw

    def _show_block(self, block):
        """``_show_blocks`` of a single block, in a quarter of the time."""
        rows = slice(block * BLOCK, (block + 1) * BLOCK)
        raw = self._raw[:, rows].compress(self._passing[rows], axis=1)
        is_empty = not raw.shape[1]
        self._low[:, block] = np.inf if is_empty else np.minimum.reduce(raw, axis=1)
        self._high[:, block] = -np.inf if is_empty else np.maximum.reduce(raw, axis=1)
        self._is_empty[block] = self._is_known[block] = is_empty
        self._limit[block] = -np.inf

    def _show_blocks(self, blocks):
        """Set the lowest and highest raw weights of the blocks, of the rows that pass."""
        passing = self._passing.reshape(-1, BLOCK)[blocks]
        raw = self._raw.reshape(len(self._raw), len(self._limit), BLOCK)[:, blocks]
        self._low[:, blocks] = np.minimum.reduce(np.where(passing, raw, np.inf), axis=2)
        self._high[:, blocks] = np.maximum.reduce(np.where(passing, raw, -np.inf), axis=2)
        self._is_empty[blocks] = is_empty = ~np.logical_or.reduce(passing, axis=1)
        self._is_known[blocks] = is_empty
        self._limit[blocks] = -np.inf

    @np.errstate(divide='ignore', invalid='ignore')
    def top(self, count, eligible=None, all_equal=False):
        """Return (rows, weights) that contain the ``count`` best eligible rows, and every row
        that is better than the last of these.

        Rows are ascending, and more than these may be there. ``eligible`` is a bool for each row;
        None: all. ``all_equal``: every row as good as the last of them is there too; else, of
        equal rows, those of the lowest numbers. Fewer eligible rows: all rows that pass.
        """
        scale = self._scale()
        rest = self._limits(scale).copy()
        rows, weights = np.zeros(0, dtype=np.intp), np.zeros(0)
        more = FIRST_BLOCKS
        while (blocks := _highest(rest, more)).size:
            new_rows = (blocks[:, None] * BLOCK + IN_BLOCK).ravel()
            new_rows = new_rows[self._passing[new_rows]]
            multipliers = (
                self._multipliers if self._varied is None else self._multipliers[:, new_rows]
            )
            new_weights = self._sum(_scaled(self._raw_of(new_rows), scale, multipliers), scale)
            # The highest weight of each block.
            starts = np.searchsorted(new_rows, blocks * BLOCK)
            self._limit[blocks] = np.maximum.reduceat(new_weights, starts)
            rest[blocks] = -np.inf
            if len(rows):
                rows = np.concatenate([rows, new_rows])
                weights = np.concatenate([weights, new_weights])
                order = np.argsort(rows)
                rows, weights = rows[order], weights[order]
            else:
                rows, weights = new_rows, new_weights
            if self._suffices(rows, weights, rest, count, eligible, all_equal):
                break
            more = len(rest) if 8 * more > len(rest) else 4 * more
        return rows, weights

    def winners(self, rows):
        """Return the WinnerWeights of rows, on the scale by which ``top`` last compared rows."""
        count = len(self._weighers) if self._left > 1 else 0
        scale = self._scale() if self._scaled_by is None else self._scaled_by
        multipliers = self._multipliers if self._varied is None else self._multipliers[:, rows]
        # Arrays that nothing changes any more: what is made of them is made later.
        return WinnerWeights(
            len(rows),
            self._weighers[:count],
            self._raw_of(rows)[:count],
            scale[0, :count, 0],
            scale[1, :count, 0],
            multipliers[:count],
        )

    def _limits(self, scale):
        """What no weight of a block exceeds: its best weight, if the block was weighed by this
        scale, else the sum of the best by each weigher."""
        if self._scaled_by is None or not (scale == self._scaled_by).all():
            self._scaled_by = scale
            self._is_known[:] = self._is_empty
        unknown = np.flatnonzero(~self._is_known)
        if len(unknown):
            self._limit[unknown] = self._reach(scale, unknown)
            self._is_known[unknown] = True
        return self._limit

    @staticmethod
    def _suffices(rows, weights, rest, count, eligible, all_equal):
        """Whether no row of the other blocks belongs to the ``count`` best eligible ones."""
        following = int(rest.argmax())
        if eligible is not None:
            is_eligible = eligible[rows]
            rows, weights = rows[is_eligible], weights[is_eligible]
        if len(rows) < count:
            return False
        last = np.partition(weights, -count)[-count]
        if last != rest[following] or all_equal:
            return bool(last > rest[following])
        equal = np.sort(rows[weights == last])
        taken = count - np.count_nonzero(weights > last)
        return bool(equal[taken - 1] < following * BLOCK)

    def _scale(self):
        """The lowest weight of each weigher, and the span to the highest: an array of shape
        (2, weighers, 1)."""
        scale = np.empty((2, len(self._raw), 1))
        low, span = scale
        low_is_fixed, high_is_fixed = self._is_fixed
        np.minimum.reduce(self._low, axis=1, keepdims=True, out=low)
        np.maximum.reduce(self._high, axis=1, keepdims=True, out=span)
        np.copyto(low, self._least, where=low_is_fixed)
        np.copyto(span, self._most, where=high_is_fixed)
        np.subtract(span, low, out=span)
        return scale

    def _reach(self, scale, blocks):
        """The sum of the highest weights that the blocks have by each weigher."""
        lowest, highest = self._low.take(blocks, axis=1), self._high.take(blocks, axis=1)
        if self._varied is None:
            best = np.where(self._multipliers > 0, highest, lowest)
            return self._sum(_scaled(best, scale, self._multipliers), scale)
        corners = [
            _scaled(raw, scale, multiplier[:, blocks])
            for raw in (lowest, highest)
            for multiplier in self._varied
        ]
        return self._sum(np.maximum.reduce(corners), scale)

    def _sum(self, scaled, scale):
        """The sums over the weighers, added in the order of ``decide.weigh``."""
        total = np.zeros(scaled.shape[1])
        if self._left > 1:
            for line in np.flatnonzero(scale[1]).tolist():
                total += scaled[line]
        return total


def _scaled(raw, scale, multipliers):
    """Raw weights between 0 and 1, times the multipliers."""
    low, span = scale
    weights = raw - low
    weights /= span
    weights *= multipliers
    return weights


def _column(numbers):
    """A column of numbers, of which None is NaN."""
    values = [math.nan if number is None else number for number in numbers]
    return np.array(values, dtype=float)[:, None]


def _highest(limits, count):
    """The blocks of the ``count`` highest limits, those of -inf excepted, ascending; of equal
    ones the first."""
    if count > FIRST_BLOCKS:
        blocks = np.argsort(-limits, kind='stable')[:count]
        return np.sort(blocks[limits[blocks] > -np.inf])
    first, left = [], limits.copy()
    for _ in range(min(count, len(limits))):
        block = int(left.argmax())
        if left[block] == -np.inf:
            break
        first.append(block)
        left[block] = -np.inf
    return np.array(sorted(first), dtype=np.intp)
