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
"""The composition root: what the configuration becomes, and the life of one scheduler process."""

import gc
import subprocess
import sys
import threading
import time
import types

import pytest
import sqlalchemy as sa

from nova_sched import errors, rpc, service
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf import CONF
from nova_sched.db import schema
from nova_sched.db.candidates import SqlCandidates
from nova_sched.db.decision_log import SqlDecisionLog
from nova_sched.db.flavors import SqlFlavors
from nova_sched.db.rebalances import SqlRebalances
from nova_sched.engine import Settings
from nova_sched.engine.explain.decision_log import MemoryDecisionLog
from nova_sched.extensions.optimize import optimizer
from nova_sched.extensions.queues import catalogue
from nova_sched.groups.limits import PlanLimits
from nova_sched.rpc.client import ClaimsClient
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each


def test_the_defaults_of_the_options_are_those_of_the_engine():
    assert service.settings(CONF) == Settings()


@each(
    'option, value, setting, found',
    [
        pytest.param('scheduler.max_attempts', 5, 'alternates', 4, id='alternates'),
        pytest.param('filter_scheduler.host_subset_size', 7, 'subset_size', 7, id='subset'),
        pytest.param(
            'filter_scheduler.shuffle_best_same_weighed_hosts', True, 'shuffle', True, id='shuffle'
        ),
        pytest.param(
            'filter_scheduler.track_instance_changes', False, 'track_instances', False, id='track'
        ),
        pytest.param('default.default_availability_zone', 'z', 'default_zone', 'z', id='zone'),
        pytest.param('default.service_down_time', 9, 'service_down_time_s', 9, id='down time'),
        pytest.param('claims.pending_ttl', 8, 'pending_ttl_s', 8, id='expiry'),
        pytest.param('claims.retry_interval', 0.5, 'retry_interval_s', 0.5, id='retry'),
        pytest.param('claims.refresh_interval', 0.5, 'refresh_interval_s', 0.5, id='refresh'),
        pytest.param('scheduler.max_claim_attempts', 4, 'max_claim_attempts', 4, id='lost claims'),
        pytest.param(
            'explain.retention', 60, 'explain_retention_s', 60, id='age of decision records'
        ),
        pytest.param('explain.sample', 0.5, 'explain_sample', 0.5, id='share of decision records'),
        pytest.param('explain.per_second', 9.0, 'explain_per_second', 9.0, id='records a second'),
        pytest.param('explain.most_placed', 9, 'explain_most_placed', 9, id='records kept'),
        pytest.param(
            'explain.tell_callers', 'all', 'tell_callers', 'all', id='what callers are told'
        ),
        pytest.param('candidates.ttl', 5, 'candidates_ttl_s', 5, id='age of candidates'),
        pytest.param('candidates.max', 5, 'candidates_max', 5, id='number of candidates'),
        pytest.param('groups.plan_ttl', 9, 'plan_ttl_s', 9, id='age of plans'),
        pytest.param('groups.plan_ttl_max', 9, 'plan_ttl_max_s', 9, id='longest age of plans'),
        pytest.param('groups.plan_life_max', 9, 'plan_life_max_s', 9, id='longest renewal'),
        pytest.param('groups.plan_attempts', 9, 'plan_attempts', 9, id='lost plans'),
        pytest.param(
            'groups.repair_seconds',
            0.5,
            'plan_limits',
            PlanLimits(repair_s=0.5),
            id='time to plan',
        ),
        pytest.param(
            'groups.improve_weights',
            True,
            'plan_limits',
            PlanLimits(improve_scores=True),
            id='plans for weights',
        ),
    ],
)
def test_settings(option, value, setting, found):
    with settings({option: value}):
        assert getattr(service.settings(CONF), setting) == found


@pytest.mark.parametrize(
    'kept, kinds',
    [
        pytest.param('memory', [MemoryDecisionLog, type(None), type(None)], id='in memory'),
        pytest.param('sql', [SqlDecisionLog, SqlCandidates, SqlRebalances], id='in a database'),
    ],
)
def test_everything_is_kept_alike(tmp_path, kept, kinds):
    with settings(
        {'claims.store': kept, 'database.connection': f'sqlite:///{tmp_path}/db.sqlite'}
    ):
        made = service.scheduler(CONF, engine=service.shared(CONF))
    context, part = made.context, made.parts['optimize']
    found = context.decision_log._store, context.candidates, part.rebalances
    assert [type(one) for one in found] == kinds
    assert type(context.store) is SqlClaimStore


def test_the_flavors_of_the_mix():
    """Those of Nova, if the hosts are read from it."""
    own, nova = [{'name': name, 'vcpus': vcpus, 'memory_mb': 512}
                 for name, vcpus in (('own', 1), ('nova', 2))]  # fmt: skip
    database = schema.in_memory()
    SqlFlavors(database).create(catalogue.checked_flavor(own, 0.0))
    source = types.SimpleNamespace(flavors=lambda: [nova])
    for engine, of_nova, vcpus in (
        (database, source, [2]),
        (database, None, [1]),
        (None, source, [2]),
        (None, None, None),
    ):
        found = optimizer.flavor_requests(engine, of_nova)
        assert (found and [one.vcpus for one in found()]) == vcpus


@pytest.mark.parametrize(
    'configured, cpus, found',
    [
        pytest.param(1, 8, 1, id='one'),
        pytest.param(3, 8, 3, id='some'),
        pytest.param(0, 8, 8, id='one for each CPU'),
        pytest.param(0, None, 1, id='a machine that does not tell'),
    ],
)
def test_workers(monkeypatch, configured, cpus, found):
    monkeypatch.setattr('os.cpu_count', lambda: cpus)
    with settings({'scheduler.workers': configured}):
        assert service.workers(CONF) == found


def test_the_default_rules():
    rules = service.rules(CONF)
    assert [rule.name for rule in rules.filters] == CONF.filter_scheduler.enabled_filters
    assert {rule.name for rule in rules.always}.isdisjoint(CONF.filter_scheduler.enabled_filters)
    assert len(rules.always) == 12


@each(
    'option, value, words',
    [
        pytest.param(
            'enabled_filters',
            ['ComputeFilter', 'MagicFilter'],
            'no filter is named MagicFilter',
            id='filter',
        ),
        pytest.param('enabled_filters', ['MagicFilter'], 'AllHostsFilter, ', id='the known ones'),
        pytest.param(
            'weight_classes', ['MagicWeigher'], 'MagicWeigher cannot be loaded', id='weigher'
        ),
        pytest.param(
            'weight_classes',
            ['nova.scheduler.weights.all_wei'],
            'cannot be loaded',
            id='half a path',
        ),
        pytest.param(
            'available_filters', ['no.such.Filter'], 'no.such.Filter cannot be loaded', id='module'
        ),
        pytest.param(
            'available_filters',
            ['json.no_such'],
            'json.no_such cannot be loaded',
            id='name in a module',
        ),
    ],
)
def test_an_unknown_rule_is_named(option, value, words):
    with (
        settings({f'filter_scheduler.{option}': value}),
        pytest.raises(errors.UnknownRule) as unknown,
    ):
        service.rules(CONF)
    assert unknown.value.where == f'filter_scheduler.{option}'
    assert words in str(unknown.value)


# The database.


@pytest.fixture
def file(tmp_path):
    return f'sqlite:///{tmp_path}/claims.sqlite'


def test_the_embedded_database_is_brought_to_the_schema(file):
    with settings({'database.connection': file}):
        for _ in range(2):
            engine = service.database(CONF)
            assert schema.version(engine) == schema.HEAD
            engine.dispose()


@pytest.mark.parametrize(
    'found, why',
    [
        pytest.param(
            '9999',
            f'the schema 9999 is newer than this release, which needs {schema.HEAD}: '
            'install the release that has upgraded the database',
            id='a newer release',
        ),
        pytest.param(
            '3b1f2c9d8e7a',
            f'the schema 3b1f2c9d8e7a is of another program, this release needs {schema.HEAD}: '
            'name a database of its own',
            id='another program',
        ),
    ],
)
def test_a_database_that_no_upgrade_makes_fit_is_refused(file, found, why):
    engine = sa.create_engine(file)
    with engine.begin() as session:
        session.execute(sa.text('CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)'))
        session.execute(sa.text(f"INSERT INTO alembic_version VALUES ('{found}')"))
    engine.dispose()
    with settings({'database.connection': file}), pytest.raises(errors.BadConfig) as refused:
        service.database(CONF)
    assert refused.value.why == why


@pytest.mark.parametrize(
    'url',
    [
        pytest.param('no url', id='nonsense'),
        pytest.param('paper://scott:tiger@host/db', id='unknown kind'),
        pytest.param('postgresql+nothing://scott:tiger@host/db', id='unknown driver'),
        pytest.param('mysql+pymysql://scott:tiger@host:port/db', id='bad port'),
    ],
)
@pytest.mark.filterwarnings('ignore:.*drivername')
def test_a_bad_url_is_refused_without_its_password(url):
    with settings({'database.connection': url}), pytest.raises(errors.BadConfig) as bad:
        service.database(CONF)
    assert bad.value.where == '[database] connection'
    assert 'tiger' not in str(bad.value)


# The process.


@pytest.fixture
def bus():
    made = rpc.transport(CONF, 'fake://')
    yield made
    made.cleanup()


def test_the_process_of_the_solver_starts_with_the_service(bus, monkeypatch):
    started = []
    monkeypatch.setattr(service.Solver, 'start', lambda solver: started.append(solver))
    with settings({'claims.store': 'memory', 'groups.solver': True}):
        made = service.SchedulerService(CONF, bus)
        made.start()
    made.stop()
    assert len(started) == 1


def test_the_garbage_collector_seldom_looks_at_the_host_state(bus):
    usual = gc.get_threshold()
    code = (
        'import gc; from nova_sched import service; service.collect_seldom(); '
        'print(gc.get_threshold(), gc.get_freeze_count() > 0)'
    )
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', code], check=True, capture_output=True, text=True
    )
    assert done.stdout.split('\n')[0] == f'{(*usual[:2], service.YOUNG_COLLECTIONS)} True'


@pytest.mark.parametrize('own_bus', [True, False])
def test_only_a_process_of_its_own_changes_the_garbage_collector(bus, monkeypatch, own_bus):
    called = []
    monkeypatch.setattr(service, 'collect_seldom', lambda: called.append(True))
    monkeypatch.setattr(service.rpc, 'transport', lambda conf: bus)
    with settings({'claims.store': 'memory'}):
        made = service.SchedulerService(CONF, None if own_bus else bus)
        made.start()
    made.stop()
    assert called == [True] * own_bus
    assert gc.isenabled()


def test_a_service_answers_until_it_is_stopped(bus):
    with settings({'claims.store': 'memory'}):
        made = service.SchedulerService(CONF, bus)
        made.start()
    assert ClaimsClient(bus, timeout_s=60).show(uuid_of('one')) == []
    waiting = threading.Thread(target=made.wait)
    waiting.start()
    made.stop()
    waiting.join(60)
    assert not waiting.is_alive()
    with pytest.raises(errors.NoAnswer):
        ClaimsClient(bus, timeout_s=0.2).show(uuid_of('one'))


@pytest.mark.parametrize(
    'option, value, said',
    [
        pytest.param(
            'enabled_filters', ['RamFilter'], 'by RamFilter, ServerGroupAnti', id='other filters'
        ),
        pytest.param('enabled_filters', [], 'Deciding by ServerGroupAnti', id='no filters'),
        pytest.param(
            'weight_classes', ['RAMWeigher'], '; weighing by RAMWeigher', id='other weighers'
        ),
        pytest.param('weight_classes', [], '; weighing by nothing', id='no weighers'),
        pytest.param(
            'enabled_filters', ['MagicFilter'], 'the rules stay as they were', id='a mistake'
        ),
    ],
)
def test_rules_change_with_the_configuration(bus, caplog, option, value, said):
    caplog.set_level('INFO')
    with settings({'claims.store': 'memory'}):
        made = service.SchedulerService(CONF, bus)
        made.start()
        caplog.clear()
        with settings({f'filter_scheduler.{option}': value}):
            made.reset()
    assert said in caplog.text
    made.stop()


def test_a_service_that_was_never_started_can_be_reloaded(bus, caplog):
    service.SchedulerService(CONF, bus).reset()
    assert 'the rules stay as they were' not in caplog.text


@pytest.mark.parametrize('before, after', [(False, True), (True, False)])
def test_the_solver_comes_and_goes_with_the_configuration(bus, monkeypatch, before, after):
    steps = []
    monkeypatch.setattr(service.Solver, 'start', lambda solver: steps.append('start'))
    monkeypatch.setattr(service.Solver, 'close', lambda solver: steps.append('close'))
    with settings({'claims.store': 'memory', 'groups.solver': before}):
        made = service.SchedulerService(CONF, bus)
        made.start()
        steps.clear()
        with settings({'groups.solver': after}):
            made.reset()
            made.reset()
        assert steps == (['start'] if after else ['close'])
        assert made.scheduler.groups.has_solver == after
    made.stop()


def test_options_that_are_reloaded_while_it_starts_are_applied(bus, caplog):
    caplog.set_level('INFO')
    with settings({'claims.store': 'memory'}):
        made = service.SchedulerService(CONF, bus)
        made.reset()
        made.start()
    made.stop()
    assert caplog.text.count('Deciding by') == 2


def test_heartbeats(bus):
    with settings({'claims.store': 'memory'}):
        made = service.SchedulerService(CONF, bus)
        assert made.alive_s() == 0
        made.start()
    assert time.monotonic() - made.alive_s() < 300
    made.stop()


def test_a_service_that_was_never_started_can_be_stopped(bus):
    before = set(threading.enumerate())
    made = service.SchedulerService(CONF, bus)
    made.stop()
    made.wait()
    assert not set(threading.enumerate()) - before


def test_a_service_whose_database_is_away_waits_for_it(bus, tmp_path, caplog):
    """It says so once, and takes no message before."""
    folder = tmp_path / 'later'
    options = {
        'database.connection': f'sqlite:///{folder}/claims.sqlite',
        'claims.retry_interval': 0.05,
    }
    with settings(options):
        made = service.SchedulerService(CONF, bus)
        starting = threading.Thread(target=made.start)
        starting.start()
        eventually(lambda: 'trying until that changes' in caplog.text)
        assert starting.is_alive()
        folder.mkdir()
        starting.join(60)
    assert ClaimsClient(bus, timeout_s=60).show(uuid_of('one')) == []
    made.stop()
    assert caplog.text.count('trying until that changes') == 1


def test_a_service_that_waits_for_its_database_can_be_stopped(bus, tmp_path, caplog):
    options = {
        'database.connection': f'sqlite:///{tmp_path}/none/claims.sqlite',
        'claims.retry_interval': 60,
    }
    with settings(options):
        made = service.SchedulerService(CONF, bus)
        starting = threading.Thread(target=made.start)
        starting.start()
        eventually(lambda: 'trying until that changes' in caplog.text)
        made.stop()
        starting.join(60)
    assert not starting.is_alive()


class SlowNova:
    """A NovaSource that reads until it is told to end."""

    def __init__(self):
        self.writer = self.mirror = self.status = self.networks = None
        self.reading, self.may_end = threading.Event(), threading.Event()

    def start(self, scheduler):
        self.reading.set()
        self.may_end.wait(60)

    def stop(self):
        """It goes on to read."""

    def flavors(self):
        return []

    def before_refusal(self, requests):
        return requests

    def movers(self, rebalances):
        return None


def test_a_service_that_is_stopped_while_it_reads_nova_takes_no_messages(bus, monkeypatch):
    """Another scheduler gets them."""
    nova = SlowNova()
    monkeypatch.setattr(service, 'nova_source', lambda conf, store: nova)
    before = set(threading.enumerate())
    with settings({'claims.store': 'memory'}):
        made = service.SchedulerService(CONF, bus)
        starting = threading.Thread(target=made.start)
        starting.start()
        assert nova.reading.wait(60)
        made.stop()
        nova.may_end.set()
        starting.join(60)
    assert not set(threading.enumerate()) - before
    assert made.alive_s() == 0
    with pytest.raises(errors.NoAnswer):
        ClaimsClient(bus, timeout_s=0.2).show(uuid_of('one'))
