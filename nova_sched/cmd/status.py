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
"""nova-sched-status: checks before a switch or an upgrade, as nova-status has them."""

import functools
import logging
import sys

from oslo_upgradecheck import upgradecheck
from oslo_upgradecheck.upgradecheck import Code, Result

from nova_sched import errors, words
from nova_sched.cmd import backend, startup
from nova_sched.cmd.manage import tables
from nova_sched.conf import CONF
from nova_sched.conf.cluster import reads_nova

UNEXPECTED = 255  # exit status, as that of nova-status
OLDEST_COMPUTE = 72  # version of the services of the release before Nova 34
NOT_NOVA = 'Not needed: hosts report themselves ([cluster] source = reports).'


def check_of(method):
    """A check whose errors are failures."""

    @functools.wraps(method)
    def run(self):
        try:
            return method(self)
        except errors.SchedError as error:
            return Result(Code.FAILURE, str(error))

    return run


def nova_check_of(method):
    """The same for a check that only a scheduler needs that reads its hosts from Nova."""

    @functools.wraps(method)
    def run(self):
        return check_of(method)(self) if reads_nova(self.conf) else good(NOT_NOVA)

    return run


def good(details):
    return Result(Code.SUCCESS, details)


class Checks(upgradecheck.UpgradeCommands):
    """The checks read only, and call no scheduler. ``conf`` is the configuration."""

    def __init__(self, conf):
        super().__init__()
        self.conf = conf

    @check_of
    def configuration(self):
        """Every option is valid, and every enabled filter and weigher is known."""
        rules = startup.check_options(self.conf)
        filters, weighers = len(rules.filters), len(rules.weighers)
        return good(f'{tables.count(filters, "filter")}, {tables.count(weighers, "weigher")}.')

    @check_of
    def claim_store(self):
        """The database of the schedulers has the schema of this release."""
        from nova_sched.cmd.manage import store
        from nova_sched.db import schema

        if self.conf.claims.store != 'sql':
            return Result(Code.WARNING, '[claims] store is memory: claims end with the process.')
        engine = self._claims()
        if engine is None:
            return good('The scheduler makes the SQLite file when it starts.')
        if store.is_upgraded_by_scheduler(engine, schema.version(engine)):
            return good('The scheduler upgrades the SQLite file when it starts.')
        schema.check(engine)
        return good(f'It has schema {schema.HEAD}.')

    @nova_check_of
    def api_database(self):
        """The account may read the tables of the API database, with the columns that are read."""
        from nova_sched.db import nova_rights

        return _readable(nova_rights.unreadable(self._reader('api_database'), nova_rights.OF_API))

    @nova_check_of
    def cells(self):
        """The same of each enabled cell."""
        from nova_sched.db import nova_rights

        cells, problems, names = self._cells(), [], []
        for uuid, why in cells.left_out.items():
            problems.append(f'cell {uuid} is left out: {why}')
        for cell in cells:
            names.append(cell.name or cell.uuid)
            try:
                unreadable = nova_rights.unreadable(cell.engine, nova_rights.OF_CELL)
            except errors.SchedError as error:
                unreadable = {'the database': str(error)}
            problems += [f'cell {names[-1]}: {table}: {why}' for table, why in unreadable.items()]
        if not names:
            problems.append('there is no enabled cell')
        is_bad = problems and not all(problem.endswith('it is disabled') for problem in problems)
        code = Code.FAILURE if is_bad else Code.WARNING if problems else Code.SUCCESS
        return Result(code, '; '.join(problems) or f'Readable: {", ".join(names)}.')

    @nova_check_of
    def service_record(self):
        """The account may write the record of the scheduler among Nova's services."""
        from nova_sched import nova_service
        from nova_sched.db import engine, nova_rights

        if not nova_service.has_services(self.conf):
            text = '[database] connection is not a database of Nova: Nova shows no scheduler.'
            return Result(Code.WARNING, text)
        writer = engine.create(self.conf.database.connection, self._limits())
        if why := nova_rights.unwritable(writer):
            text = f'The record cannot be written, and Nova shows the scheduler as down: {why}'
            return Result(Code.WARNING, text)
        return good('The table services may be written.')

    @nova_check_of
    def new_hosts(self):
        """The account may map new hosts to their cells, if it is to."""
        from nova_sched.db import engine, nova_rights

        if self.conf.scheduler.discover_hosts_in_cells_interval < 0:
            return good('[scheduler] discover_hosts_in_cells_interval is not set.')
        limits = self._limits()
        urls = [cell.engine.url.render_as_string(hide_password=False) for cell in self._cells()]
        api, *cells = (
            engine.create(url, limits) for url in (self.conf.api_database.connection, *urls)
        )
        if why := nova_rights.unmappable(api, cells):
            return Result(Code.WARNING, f'New hosts cannot be mapped to their cells: {why}')
        return good('New hosts can be mapped to their cells.')

    @nova_check_of
    def placement(self):
        """Placement has the microversion, and the account may read and write allocations."""
        from nova_sched.cloud import placement

        client = placement.client(self.conf)
        client.check()
        return good(f'It has microversion {placement.MICROVERSION}, and grants the rights.')

    @nova_check_of
    def nova_api(self):
        """Nova's API has the microversion, and the account may see what moves need."""
        from nova_sched.cloud import compute_api
        from nova_sched.conf.services import has_nova_account
        from nova_sched.db import nova_rights

        if not has_nova_account(self.conf):
            return good('[nova_api] has no account: no servers are moved.')
        unreadable = nova_rights.unreadable(self._reader('api_database'), nova_rights.OF_MOVES)
        if unreadable:
            return _readable(unreadable)
        compute_api.client(self.conf).check()
        return good(f'It has microversion {compute_api.MICROVERSION}, and shows all migrations.')

    @nova_check_of
    def computes(self):
        """No nova-compute is older than this release supports."""
        versions = {
            cell.name or cell.uuid: version
            for cell in self._cells()
            if (version := cell.oldest_compute_version()) is not None
        }
        if not versions:
            return Result(Code.WARNING, 'No cell has a nova-compute service.')
        old = {name: version for name, version in versions.items() if version < OLDEST_COMPUTE}
        if old:
            each = ', '.join(f'{name}: {version}' for name, version in sorted(old.items()))
            text = (
                f'The oldest nova-compute services are of version {each}; upgrade them to at least'
            )
            return Result(Code.FAILURE, f'{text} {OLDEST_COMPUTE}.')
        return good(f'The oldest has version {min(versions.values())}.')

    @check_of
    def consumers(self):
        """Only schedulers of nova_sched take calls from the queue."""
        from nova_sched import rpc

        with startup.bus(self.conf) as bus:
            count = rpc.consumers(bus)
        if count is None:
            return Result(Code.WARNING, 'Not known: the bus is not RabbitMQ.')
        ours = len(self._schedulers())
        if count <= ours:
            return good(f'{tables.count(count, "consumer")}, of {ours} known.')
        rest = count - ours
        text = (
            f'{rest} of {tables.count(count, "consumer")} of the queue {rpc.TOPIC} '
            f'{"is" if rest == 1 else "are"} no scheduler that shares [claims] connection. Stop '
            'each nova-scheduler before nova-sched-scheduler is started.'
        )
        return Result(Code.WARNING, text)

    @nova_check_of
    def shared_store(self):
        """All services nova-scheduler that are up share the database of claims."""
        from nova_sched import nova_service

        others = nova_service.unshared(self.conf, self._schedulers())
        if not others:
            return good('Each nova-scheduler service that is up shares [claims] connection.')
        return Result(Code.WARNING, nova_service.UNSHARED % ', '.join(others))

    def _get_details(self, upgrade_check_result):
        details = super()._get_details(upgrade_check_result)
        return details and words.visible(details, '\n')

    _upgrade_checks = (
        ('Configuration', configuration),
        ('Database of claims', claim_store),
        ("Nova's API database", api_database),
        ("Nova's cells", cells),
        ('Service record', service_record),
        ('New hosts', new_hosts),
        ('Placement', placement),
        ("Nova's API", nova_api),
        ('Compute services', computes),
        ('Consumers of the queue', consumers),
        ('Schedulers', shared_store),
    )

    # What they read.

    def _reader(self, group):
        from nova_sched.db import engine

        return engine.reader(self.conf[group].connection, self._limits())

    def _limits(self):
        from nova_sched.db.limits import DatabaseLimits

        return DatabaseLimits.of(self.conf.database_limits)

    def _cells(self):
        from nova_sched.cloud.cells import Cells
        from nova_sched.db.nova_api import NovaApi

        api = NovaApi(self._reader('api_database'))
        cells = Cells(api, self.conf.database.connection, self._limits())
        cells.reread()
        return cells

    def _claims(self):
        """An engine on the database of claims; None: it is a SQLite file that is not made yet."""
        from nova_sched.cmd.manage import store

        return None if store.missing_file(self.conf) else store.existing(self.conf)

    def _schedulers(self):
        """The hosts of the schedulers that share the database of claims, one for each process."""
        from nova_sched.db import schema
        from nova_sched.db.schedulers import SqlSchedulers
        from nova_sched.engine.sync.membership import SILENT_S

        if self.conf.claims.store != 'sql' or (engine := self._claims()) is None:
            return []
        if schema.version(engine) != schema.HEAD:
            return []
        schedulers = SqlSchedulers(engine)
        return [scheduler.host for scheduler in schedulers.alive(schedulers.now_s() - SILENT_S)]


def _readable(unreadable):
    if unreadable:
        return Result(
            Code.FAILURE, '; '.join(f'{name}: {why}' for name, why in unreadable.items())
        )
    return good('All tables and columns are readable.')


def main(argv=None):
    backend.ignore_eventlet()
    logging.basicConfig(level=logging.CRITICAL, stream=sys.stderr)
    argv = sys.argv[1:] if argv is None else argv
    return startup.guarded(
        lambda: upgradecheck.main(CONF, 'nova_sched', Checks(CONF), argv), UNEXPECTED
    )


if __name__ == '__main__':
    sys.exit(main())
