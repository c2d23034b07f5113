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

"""`config check`: all problems of a configuration, at once."""

import dataclasses
import functools
import importlib.metadata
import logging
import os
import time
from pathlib import Path

from oslo_config import cfg

from nova_sched import errors, extension, rpc
from nova_sched.cmd import startup
from nova_sched.cmd.manage import asking, output, quota, store, tables
from nova_sched.cmd.manage.arguments import option
from nova_sched.conf import claims as claims_conf
from nova_sched.conf import plug_in_opts
from nova_sched.conf import quota as quota_conf
from nova_sched.conf.filter_scheduler import ALL_FILTERS
from nova_sched.db import address, clock, schema, transactions
from nova_sched.db import engine as db_engine
from nova_sched.db.limits import DatabaseLimits
from nova_sched.engine import catalog
from nova_sched.logs import first_line
from nova_sched.words import question

LOG = logging.getLogger(__name__)

ERROR, WARNING = 'error', 'warning'
KEYSTONE_S = 10.0  # to wait for Keystone
MAX_SKEW_S = 2.0  # a larger difference of clocks is reported
# Namespaces whose options a configuration may have; the sample is generated from the same.
LIBRARIES = (
    'nova_sched',
    'oslo.db',
    'oslo.log',
    'oslo.messaging',
    'oslo.middleware.healthcheck',
    'oslo.middleware.http_proxy_to_wsgi',
    'oslo.policy',
    'oslo.service.service',
)
# The same by section, for the libraries that use Keystone: their imports take long, so only those
# of the sections in the files are read.
ASKING_KEYSTONE = {
    'keystone_authtoken': 'keystonemiddleware.auth_token',
    'neutron': 'nova_sched',
    'oslo_limit': 'oslo.limit',
    'placement': 'nova_sched',
}
# Authentication types for Keystone; each has additional options.
AUTH_TYPES = ('password', 'v3password', 'v3applicationcredential')


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One problem: where, what, and what to do about it."""

    severity: str
    where: str
    problem: str
    advice: str


def everything(conf, paths):
    """All findings of all checks, errors first."""
    given = words(paths)
    findings = list(values(given, known_options({section for section, _ in given})))
    more = [check for _, checks in extension.offered(list, 'checks') for check in checks]
    for check in (filters, weighers, bus, database, quotas, *more):
        try:
            findings += check(conf)
        except (cfg.Error, ValueError):
            continue  # an invalid value that the check needs is among the findings already
        except Exception as error:
            LOG.exception('A check has failed')
            where = f'{check.__module__}.{check.__name__}'
            problem = f'the check failed: {error!r}'
            findings.append(ConfigFinding(ERROR, where, problem, 'report a bug'))
    return sorted(findings, key=lambda finding: finding.severity != ERROR)


# Contents of the files.


def config_files(conf):
    """The configuration files, in the order in which they are read."""
    folders = [sorted(Path(folder).glob('*.conf')) for folder in conf.config_dir or ()]
    return [
        str(path)
        for path in (*(conf.config_file or ()), *(path for paths in folders for path in paths))
    ]


def words(paths):
    """Map (group, option) to the texts of the files; a later file comes later."""
    texts_of = {}
    for path in paths:
        sections = {}
        cfg.ConfigParser(path, sections).parse()
        for group, options in sections.items():
            for name, texts in options.items():
                key = (group if group == 'DEFAULT' else group.lower(), name.replace('-', '_'))
                texts_of.setdefault(key, []).extend(texts)
    return texts_of


def known_options(sections=frozenset(ASKING_KEYSTONE)):
    """Map (group, option) to the option, for this package, libraries and plug-ins; includes old
    names of options. Of ASKING_KEYSTONE only these ``sections``."""
    asking = sorted(ASKING_KEYSTONE.keys() & sections)
    listed = [*plug_in_opts()]
    if asking:
        from keystoneauth1 import loading  # late: the configuration of a scheduler has no account

        for section in asking:
            listed.append((section, loading.get_auth_common_conf_options()))
            for kind in AUTH_TYPES:
                listed.append((section, loading.get_auth_plugin_conf_options(kind)))
    names = {*LIBRARIES, *(ASKING_KEYSTONE[section] for section in asking)}
    for entry_point in importlib.metadata.entry_points(group='oslo.config.opts'):
        if entry_point.name in names:
            listed += entry_point.load()()
    known = {}
    for group, options in listed:
        group = str(group or 'DEFAULT')
        for opt in options:
            known[group, opt.dest] = opt
            for old in opt.deprecated_opts:
                known[old.group or group, (old.name or opt.name).replace('-', '_')] = opt
    return known


def values(given, known):
    """Sections and options that this release does not read, and values that are not valid."""
    groups = {group for group, _ in known}
    for group in sorted({group for group, _ in given} - groups):
        yield ConfigFinding(
            WARNING,
            f'[{group}]',
            'no part of this release reads this section',
            question(group, groups | ASKING_KEYSTONE.keys()) or IGNORE,
        )
    for (group, name), texts in given.items():
        if group not in groups:
            continue
        option = known.get((group, name))
        if option is None:
            options = [name for at, name in known if at == group]
            yield ConfigFinding(
                WARNING,
                f'[{group}] {name}',
                'this release has no such option',
                question(name, options) or IGNORE,
            )
            continue
        for text in texts if option.multi else texts[-1:]:
            yield from _value(f'[{group}] {name}', option, text)


IGNORE = 'leave it out, or ignore this'


def _value(where, option, text):
    if '$' in text:  # it refers to another option, which is checked by itself
        return
    try:
        option.type(text)
    except (ValueError, TypeError) as error:
        default = '' if option.default is None else f'; the default is {option.default}'
        advice = f'give it a valid value{default}'
        yield ConfigFinding(ERROR, where, f'{text!r} is not valid: {error}', advice)


# Effects of the values.


def filters(conf):
    """Filters that no package provides."""
    wanted = conf.filter_scheduler
    try:
        catalog.filters(wanted.enabled_filters, wanted.available_filters)
    except errors.UnknownRule as error:
        where = f'[filter_scheduler] {error.where.rpartition(".")[2]}'
        advice = (
            'correct it or take it out; a filter of another package is also named in '
            f'available_filters, by its dotted path, in addition to {ALL_FILTERS}'
        )
        yield ConfigFinding(ERROR, where, error.why, advice)


def weighers(conf):
    """Weighers that no package provides."""
    known = ', '.join(catalog.known('nova_sched.weighers'))
    for path in conf.filter_scheduler.weight_classes:
        try:
            catalog.weighers([path])
        except errors.UnknownRule:
            problem = f'there is no weigher {path}'
            advice = (
                f'correct it or take it out; it is the dotted path of a class, or one of {known}'
            )
            yield ConfigFinding(ERROR, '[filter_scheduler] weight_classes', problem, advice)


def bus(conf):
    """An invalid address of the message bus."""
    where, conductors = '[DEFAULT] transport_url', 'give the address that the conductors use'
    try:
        rpc.transport(conf).cleanup()
    except errors.BadConfig as error:
        yield ConfigFinding(ERROR, where, error.why, conductors)
        return
    if conf.transport_url == 'rabbit://':
        problem = 'it is not set: the default is a RabbitMQ on this machine, with the user guest'
        yield ConfigFinding(WARNING, where, problem, conductors)
    elif conf.transport_url.startswith('fake:'):
        problem = 'no other process can be reached over it'
        yield ConfigFinding(WARNING, where, problem, f'for trials leave it; else {conductors}')


def database(conf):
    """A database that does not exist, does not answer, or has another schema."""
    if conf.claims.store != 'sql':
        problem = 'claims and node facts end with the process, and no other scheduler sees them'
        yield ConfigFinding(
            WARNING, '[claims] store', problem, 'for trials leave it; else make it sql'
        )
        return
    where, url = '[database] connection', claims_conf.connection(conf)
    try:
        file = address.sqlite_file(url)
        if file is not None and not file.exists():
            yield from _folder(where, file.absolute().parent)
            return
        engine = db_engine.for_command(url, DatabaseLimits.of(conf.database_limits))
        version = schema.version(engine)
    except errors.BadConfig as error:
        yield ConfigFinding(
            ERROR, where, error.why, 'correct the address, or install the driver that it needs'
        )
    except errors.StoreUnavailable as error:
        advice = 'start the database, or correct address, user and password'
        yield ConfigFinding(ERROR, where, str(error), certificate_advice(error) or advice)
    else:
        misfit = schema.misfit(version)
        if misfit is not None and not store.is_upgraded_by_scheduler(engine, version):
            yield ConfigFinding(ERROR, where, *misfit)


def certificate_advice(error):
    """What to change where a certificate prevents a connection; None for any other error."""
    if 'certificate' not in str(error):
        return None
    return (
        'correct the file of the certificate authority, or use the name that is in the '
        'certificate of the server'
    )


def _folder(where, folder):
    """The scheduler makes the file of an embedded database, but not its directory."""
    if not folder.is_dir():
        advice = 'make it, for the user that runs the scheduler'
        yield ConfigFinding(ERROR, where, f'there is no directory {folder}', advice)
    elif not os.access(folder, os.W_OK):
        problem = f'the directory {folder} cannot be written by the user that runs this check'
        advice = 'give write access to the user that runs the scheduler'
        yield ConfigFinding(WARNING, where, problem, advice)


def quotas(conf):
    """Limits of unknown resources."""
    for name in conf.quota.limits:
        if not quota.RESOURCE.fullmatch(name):
            problem = f'{name} is not a resource, so this limits nothing'
            advice = 'name `servers`, or `class:` and a resource class, such as class:VCPU'
            yield ConfigFinding(WARNING, '[quota] limits', problem, advice)


# What answers, for --connect.


def connections(conf):
    """Return the findings of all trials, and the names of the services that were reached."""
    trials = dict(TRIALS)
    for name, trial in extension.united('trials').items():
        trials.setdefault(name, trial)
    tried = asking.results([functools.partial(_try, trial, conf) for trial in trials.values()])
    findings = [finding for problems in tried for finding in problems or []]
    return findings, [name for name, problems in zip(trials, tried, strict=True) if problems == []]


def _try(trial, conf):
    try:
        return trial(conf)
    except (errors.BadConfig, errors.StoreUnavailable, cfg.Error, ValueError):
        return None  # the checks that do not connect report it already
    except Exception as error:
        LOG.exception('A trial has failed')
        where = f'{trial.__module__}.{trial.__name__}'
        return [ConfigFinding(ERROR, where, f'the trial failed: {error!r}', 'report a bug')]


# Each trial returns its findings; None if the configuration names no such service.


def bus_connection(conf):
    """RabbitMQ of [DEFAULT] transport_url."""
    with startup.bus(conf) as transport:
        if conf.transport_url.startswith('fake:'):
            return None
        return broker('[DEFAULT] transport_url', lambda: rpc.try_once(transport))


def broker(where, connect):
    try:
        connect()
    except errors.BrokerRefused as error:
        advice = 'correct the user, the password or the virtual host, or add them to RabbitMQ'
        return [ConfigFinding(ERROR, where, str(error), advice)]
    except errors.BrokerUnavailable as error:
        advice = certificate_advice(error) or 'start RabbitMQ, or correct host and port'
        return [ConfigFinding(ERROR, where, str(error), advice)]
    return []


def database_clock(conf):
    """The clock of the database, which orders claims and reports."""
    if conf.claims.store != 'sql' or store.missing_file(conf):
        return None  # a connection would make the file
    engine = store.existing(conf, DatabaseLimits.of(conf.database_limits))
    try:
        with transactions.transaction(engine) as connection:
            ahead_s = clock.read(connection) - time.time()
    finally:
        engine.dispose()
    if abs(ahead_s) <= MAX_SKEW_S:
        return []
    which = 'ahead of' if ahead_s > 0 else 'behind'
    problem = f"the database's clock is {abs(ahead_s):.0f} s {which} the clock of this machine"
    advice = "synchronize both; times in lists and logs are the database's"
    return [ConfigFinding(WARNING, '[database] connection', problem, advice)]


def keystone(conf, group='keystone_authtoken'):
    """The account with which the API validates tokens."""
    from keystoneauth1 import exceptions, loading  # late: its import takes long

    # The middleware of the API registers options of the same names in another form.
    fresh = cfg.ConfigOpts()
    fresh([f'--config-file={file}' for file in config_files(conf)], project='nova_sched')
    loading.register_session_conf_options(fresh, group)
    loading.register_auth_conf_options(fresh, group)
    where = f'[{group}]'
    try:
        auth = loading.load_auth_from_conf_options(fresh, group)
        if auth is None:
            return None
        session = loading.load_session_from_conf_options(fresh, group, auth=auth)
        session.timeout = KEYSTONE_S
        session.get_token()
    except (exceptions.Unauthorized, exceptions.NotFound, exceptions.BadRequest) as error:
        problem = f'Keystone refuses the account: {first_line(error)}'
        advice = 'correct auth_url, username, password, and the names of project and domains'
        return [ConfigFinding(ERROR, where, problem, advice)]
    except exceptions.ClientException as error:
        problem = f'Keystone does not answer: {first_line(error)}'
        advice = certificate_advice(error) or 'start Keystone, or correct auth_url'
        return [ConfigFinding(ERROR, where, problem, advice)]
    return []


def unified_limits(conf):
    """The account that reads unified limits."""
    return keystone(conf, 'oslo_limit') if conf.quota.driver == quota_conf.KEYSTONE else None


TRIALS = {
    'bus': bus_connection,
    'database': database_clock,
    'Keystone': keystone,
    'unified limits': unified_limits,
}


def check(args, conf):
    """Report all problems of the configuration, with advice

    The check covers: the values of all options in the files, unknown options, filters and
    weighers, the message bus's address, the database (its schema is read), the broker, special
    things, driver and limits of queues. With --connect it also logs in to the bus, the broker of
    queues and Keystone, and compares the clock of the database. Nothing is changed. The exit
    status is 1 if anything is an error; after warnings alone it is 0.

    Keys: ok, files, reached (names of the services), findings (severity: error
    or warning, where, problem, advice).
    """
    files = config_files(conf)
    findings, reached = everything(conf, files), []
    if args.connect:
        more, reached = connections(conf)
        findings = sorted(findings + more, key=lambda finding: finding.severity != ERROR)
    wrong = [finding for finding in findings if finding.severity == ERROR]
    listed = [dataclasses.asdict(finding) for finding in findings]
    document = {'ok': not wrong, 'files': files, 'reached': reached, 'findings': listed}
    output.show(args, document, text=lambda _: page(files, findings, reached))
    return 1 if wrong else 0


def page(files, findings, reached=()):
    """The findings as text."""
    lines = [f'Read: {", ".join(files) or "no file, all options have their defaults"}']
    if reached:
        lines.append(f'Reached: {", ".join(reached)}')
    for finding in findings:
        lines += [
            '',
            f'{finding.severity.upper()} {finding.where}',
            tables.fill(finding.problem, '  '),
            tables.fill(finding.advice, '  -> '),
        ]
    wrong = sum(finding.severity == ERROR for finding in findings)
    counts = tables.count(wrong, 'error'), tables.count(len(findings) - wrong, 'warning')
    return '\n'.join([*lines, '', f'{", ".join(counts)}.'])


VERBS = (
    (
        'check',
        check,
        option(
            '--connect', action='store_true', help='also try the bus, the database and Keystone'
        ),
    ),
)
