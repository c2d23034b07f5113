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
"""Finds compute hosts that are mapped to no cell, and maps them, as Nova's scheduler does."""

import logging
import time

from nova_sched import errors
from nova_sched.db import nova_discovery
from nova_sched.logs import Problems

LOG = logging.getLogger(__name__)

DEFAULT_S = 60.0  # of the interval 0, as in Nova


class HostDiscovery:
    """Maps new hosts of all enabled cells, at each interval.

    ``api_url`` is the URL of the API database. ``open_`` makes an engine that may write, of a URL.
    ``interval_s`` returns `discover_hosts_in_cells_interval`: 0 is 60 s, less is never. Several
    schedulers do no harm: a host that is mapped by then is skipped.
    """

    def __init__(self, cells, api_url, open_, interval_s, monotonic=time.monotonic):
        self._cells, self._api_url, self._open = cells, api_url, open_
        self._interval_s, self._monotonic = interval_s, monotonic
        self._due_s = float('-inf')
        self._engines = {}
        self._problems = Problems(LOG)

    def run(self):
        """Map the hosts that are new, if it is time. Returns whether there were any."""
        interval_s, now_s = self._interval_s(), self._monotonic()
        if interval_s < 0 or now_s < self._due_s:
            return False
        self._due_s = now_s + (interval_s or DEFAULT_S)
        mapped = [host for cell in self._cells for host in self._discover(cell)]
        if mapped:
            LOG.info('Mapped %d new hosts to their cells: %s', len(mapped), ', '.join(mapped))
        return bool(mapped)

    def _discover(self, cell):
        """Map the new hosts of one cell. Returns their names, as CELL:HOST."""
        mapped = []
        try:
            for uuid, host in nova_discovery.unmapped(cell.engine):
                if nova_discovery.map_host(self._writer(self._api_url), cell.uuid, host):
                    mapped.append(f'{cell.name or cell.uuid}:{host}')
                    url = cell.engine.url.render_as_string(hide_password=False)
                    nova_discovery.mark(self._writer(url), uuid)
        except errors.SchedError as error:
            self._problems.begin(
                cell.uuid, 'New hosts of cell %s cannot be mapped: %s', cell.uuid, error
            )
        else:
            self._problems.end(cell.uuid, 'Hosts of cell %s can be mapped again', cell.uuid)
        return mapped

    def _writer(self, url):
        if url not in self._engines:
            self._engines[url] = self._open(url)
        return self._engines[url]
