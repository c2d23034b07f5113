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
"""The enabled cells of a Nova cloud, each with a reader of its database."""

import logging
import urllib.parse

from nova_sched import errors
from nova_sched.db import address
from nova_sched.db import engine as db_engine
from nova_sched.db import limits as db_limits
from nova_sched.db.nova_cell import NovaCell
from nova_sched.state.host_aggregate import HostAggregate

LOG = logging.getLogger(__name__)

CELL0 = '00000000-0000-0000-0000-000000000000'  # of servers that no host was found for
DISABLED = 'it is disabled'
PARTS = ('scheme', 'username', 'password', 'hostname', 'port', 'query', 'fragment')


def any_yes(questions):
    """Return whether a database answers one of these questions with yes: pairs of a method and its
    argument, asked in order. Raises StoreUnavailable if none does, and one does not answer."""
    problem = None
    for ask, about in questions:
        try:
            if ask(about):
                return True
        except errors.StoreUnavailable as error:
            problem = error
    if problem is not None:
        raise problem
    return False


class Cells:
    """The cells of the mappings in Nova's API database, as NovaCells: those that are enabled, in
    the order of their mappings.

    ``api`` is a NovaApi. ``connection`` fills the templates of URLs; it is the process's own
    `[database] connection`. ``options`` are those of oslo.db. No database is connected to before
    it is read. Any thread may read the cells; ``reread`` is for one thread at a time.
    """

    def __init__(self, api, connection, limits=db_limits.DEFAULT, **options):
        self._api, self._connection = api, connection
        self._limits, self._options = limits, options
        self._known = {}  # (cell UUID, name, URL) -> NovaCell
        self.left_out = {}  # cell UUID -> why its hosts get no servers

    def __iter__(self):
        return iter(tuple(self._known.values()))

    def reread(self):
        """Read the mappings again. A cell that has not changed stays the same NovaCell.

        Raises StoreUnavailable if the API database does not answer; then the cells stay as they
        are.
        """
        known, left_out = {}, {}
        for mapping in self._api.cell_mappings():
            if mapping.uuid == CELL0:
                continue
            if mapping.disabled:
                left_out[mapping.uuid] = DISABLED
                continue
            try:
                url = self._url(mapping)
                key = mapping.uuid, mapping.name, url
                known[key] = self._known.get(key) or self._made(mapping, url)
            except errors.BadConfig as error:
                left_out[mapping.uuid] = str(error)
        for uuid, why in left_out.items():
            if self.left_out.get(uuid) != why:
                LOG.warning('Cell %s is left out, and its hosts get no servers: %s', uuid, why)
        gone = [cell for key, cell in self._known.items() if key not in known]
        self._known, self.left_out = known, left_out
        for cell in gone:
            cell.close()

    def aggregates(self):
        """The HostAggregates of the cloud, by id."""
        return [
            HostAggregate(row.id, row.name, row.hosts, row.metadata, row.uuid)
            for row in self._api.aggregates()
        ]

    def is_moving(self, server):
        """Return whether Nova moves, resizes or evacuates a server now. Raises StoreUnavailable if
        no cell says so, and one does not answer."""
        return any_yes((cell.is_moving, server) for cell in self)

    def _url(self, mapping):
        """The URL of a cell's database. Raises BadConfig, without any part of the URL."""
        url, where = mapping.database_connection or '', _where(mapping)
        if '{' in url:
            if not self._connection:
                why = 'it is a template, but [database] connection, which fills it, is not set'
                raise errors.BadConfig(where, why)
            try:
                url = filled(url, self._connection)
            except (LookupError, ValueError, AttributeError):
                why = 'it is a template with a field that [database] connection does not have'
                raise errors.BadConfig(where, why) from None
        try:
            address.shown(url)
        except errors.BadConfig:
            raise errors.BadConfig(where, 'it is not the URL of a database') from None
        return url

    def _made(self, mapping, url):
        try:
            engine = db_engine.reader(url, self._limits, **self._options)
        except errors.BadConfig as error:
            raise errors.BadConfig(_where(mapping), error.why) from error
        return NovaCell(engine, mapping.uuid, mapping.name)


def _where(mapping):
    return f'cell_mappings.database_connection of cell {mapping.uuid}'


def filled(template, connection):
    """The URL of a template with fields like `{hostname}`, from the parts of ``connection``.

    Raises LookupError, ValueError or AttributeError for a template that cannot be filled. The
    parts are not decoded, so that special characters in passwords stay as they are written.
    """
    parsed = urllib.parse.urlparse(connection)
    parts = {name: getattr(parsed, name) for name in PARTS}
    given = {name: part for name, part in parts.items() if part is not None}
    return template.format(**given, path=parsed.path.lstrip('/'))
