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
"""Outages of one node of a cluster for a storm: it is killed, or cut off from the others, and
comes back."""

import time


class KilledNode:
    """A node that is killed with SIGKILL, and starts again ``away_s`` seconds later."""

    def __init__(self, node, away_s):
        self._node, self._away_s = node, away_s

    def kill(self):
        self._node.kill()
        time.sleep(self._away_s)

    def start(self):
        self._node.start()


class CutOffNode:
    """A node of a ``cluster`` that runs for ``away_s`` seconds, and neither hears nor reaches the
    others."""

    def __init__(self, cluster, node, away_s):
        self._cluster, self._node, self._away_s = cluster, node, away_s

    def kill(self):
        self._cluster.cut_off(self._node)
        time.sleep(self._away_s)

    def start(self):
        self._cluster.join(self._node)
