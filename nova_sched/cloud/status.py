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
"""What a scheduler that reads its hosts from Nova knows of the cloud, for operators."""

from nova_sched import errors
from nova_sched.cloud.cells import DISABLED
from nova_sched.cloud.placement import NOBODY
from nova_sched.engine.sync.nova_hosts import LEFT_OUT, SILENT, UP

MAX_EXPLAINED = 200  # nodes of a cell that another scheduler reads, of which the reason is read
READABLE, UNREADABLE = 'readable', 'unreadable'
API_DATABASE = "Nova's API database"


class CloudStatus:
    """Asks the parts of the cloud, and the mirror. ``writer`` is the AllocationWriter, or None for
    a scheduler that only reads. ``down_s`` returns the seconds after which a poll is too old."""

    def __init__(self, scheduler, mirror, cells, placement, writer, down_s):
        self._scheduler, self._mirror, self._cells = scheduler, mirror, cells
        self._placement, self._writer, self._down_s = placement, writer, down_s

    def read(self):
        """Return plain values; times are seconds since the epoch.

        ``ok``: nothing is wrong. ``now``. ``cells``: for each ``cell_uuid``, ``name``, ``state``
        (`readable`, `unreadable`, `disabled` or `left out`), ``why``, ``looked_at`` (None: never),
        ``hosts``, ``taking`` (how many of them take servers). ``hosts``: those that take none, or
        of which a node takes none, each with ``host``, ``cell_uuid``, ``state`` (`left out`,
        `disabled`, `forced down` or `silent`) and ``why``; a row that names no host has the UUID
        of its node. ``parts``: the API database and Placement, each with ``part``,
        ``reachable``, ``why``. ``writes``: decisions that are not written to Placement yet
        (``pending``), and servers of which that is not known (``in_doubt``); None for a scheduler
        that writes none.
        """
        standing = self._scheduler.call(self._scheduler.nova_hosts.standing)
        enabled = [self._cell(view, standing) for view in self._mirror.views.values()]
        cells = [cell for cell, _ in enabled] + [
            self._left_out_cell(uuid, why, standing) for uuid, why in self._cells.left_out.items()
        ]
        hosts = [host for _, without_servers in enabled for host in without_servers]
        placement_problem = None
        database_problem = self._mirror.unreadable.get(API_DATABASE)
        try:
            self._placement.root_of(NOBODY)
        except errors.SchedError as error:
            placement_problem = str(error)
        parts = [
            {'part': part, 'reachable': problem is None, 'why': problem}
            for part, problem in (
                (API_DATABASE, database_problem),
                ('Placement', placement_problem),
            )
        ]
        return {
            'ok': all(part['reachable'] for part in parts)
            and all(cell['state'] in (READABLE, 'disabled') for cell in cells)
            and all(host['state'] not in (LEFT_OUT, SILENT) for host in hosts),
            'now': self._scheduler.clock(),
            'cells': cells,
            'hosts': hosts,
            'parts': parts,
            'writes': self._writer
            and dict(zip(('pending', 'in_doubt'), self._writer.pending, strict=True)),
        }

    def _cell(self, view, standing):
        """An enabled cell, and its hosts that take no servers."""
        uuid, problem = view.cell.uuid, self._mirror.unreadable.get(f'Cell {view.cell.uuid}')
        known = dict(standing.get(uuid, {}))
        taking = sum(state == UP for state, _ in known.values())
        known |= {host: (LEFT_OUT, why) for host, why in view.odd_hosts().items()}
        if not view.is_mine and problem is None:
            try:
                known |= self._of_another(view)
            except errors.SchedError as error:
                problem = str(error)
        age_s = None if view.seen_s is None else self._scheduler.clock() - view.seen_s
        if problem is None and (age_s is None or age_s > self._down_s()):
            problem = 'it was not polled yet' if age_s is None else f'{age_s:.0f} s since a poll'
        cell = {
            'cell_uuid': uuid,
            'name': view.cell.name,
            'state': READABLE if problem is None else UNREADABLE,
            'why': problem,
            'looked_at': view.seen_s,
            'hosts': len(known),
            'taking': taking,
        }
        return cell, [
            {'host': host, 'cell_uuid': uuid, 'state': state, 'why': why}
            for host, (state, why) in sorted(known.items())
            if state != UP
        ]

    def _of_another(self, view):
        """The hosts that are left out by the scheduler that reads this cell: they are not
        known."""
        stamps = view.cell.node_stamps()
        host_of = self._scheduler.nova_hosts.host_of
        unknown = sorted(uuid for uuid in stamps if host_of(uuid) is None)
        whys = self._mirror.nodes.why_not_reported(view, unknown[:MAX_EXPLAINED])
        default = 'another scheduler has not read it yet'
        return {stamps[uuid][0] or uuid: (LEFT_OUT, whys.get(uuid, default)) for uuid in unknown}

    @staticmethod
    def _left_out_cell(uuid, why, standing):
        return {
            'cell_uuid': uuid,
            'name': None,
            'state': 'disabled' if why == DISABLED else LEFT_OUT,
            'why': why,
            'looked_at': None,
            'hosts': len(standing.get(uuid, ())),
            'taking': 0,
        }
