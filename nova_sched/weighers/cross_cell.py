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
"""CrossCellWeigher."""

import numpy as np

from nova_sched.weighers import Weigher


class CrossCellWeigher(Weigher):
    """The cell of a server that may move to another cell is better: 1 there, -1 elsewhere."""

    option = 'cross_cell_move_weight_multiplier'
    request_facts = ('destination',)

    def raw(self, hosts, rows, request):
        wanted = request.destination
        if wanted is None or not wanted.cell_uuid or not wanted.allow_cross_cell_move:
            return None
        return np.where(hosts.in_cell(wanted.cell_uuid)[rows], 1, -1)
