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
"""Logs once when the usage counts of this node and the scheduler differ, and once when they agree
again."""

import logging
from collections.abc import Set

LOG = logging.getLogger(__name__)

SETTLE_S = 2.0  # seconds that a difference lasts before it is logged
AT_MOST = 10  # differences in one log line


class Dispute:
    """The differences that last. One that ends within ``SETTLE_S`` is not logged.

    While a server is built, moves or is resized, one side knows of it a moment before the other.
    """

    def __init__(self, settle_s: float = SETTLE_S):
        self._settle_s = settle_s
        self._since_s: dict[str, float] = {}
        self._told: frozenset[str] = frozenset()
        self._is_open = False  # a difference was logged, and its end was not

    def hear(self, node: str, found: Set[str], now_s: float) -> bool:
        """Log the new ones among the differences that were found now.

        Returns whether some are too recent to be logged; call again in ``SETTLE_S`` seconds.
        """
        self._since_s = {one: self._since_s.get(one, now_s) for one in found}
        standing = {
            one for one, since_s in self._since_s.items() if now_s - since_s >= self._settle_s
        }
        new = sorted(standing - self._told)
        self._told = (self._told & found) | standing
        if new:
            self._is_open = True
            more = f'; and {len(new) - AT_MOST} more' if len(new) > AT_MOST else ''
            LOG.warning(
                'Node %s and the scheduler count differently. %s%s',
                node,
                '; '.join(new[:AT_MOST]),
                more,
            )
        elif self._is_open and not found:
            self._is_open = False
            LOG.info('Node %s and the scheduler count the same again', node)
        return bool(found - self._told)
