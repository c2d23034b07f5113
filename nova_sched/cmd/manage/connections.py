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
"""`config check --connect`: tries the services that a configuration names."""

import functools
import time

from keystoneauth1 import exceptions, loading
from oslo_config import cfg

from nova_sched import errors, queue_service, rpc
from nova_sched.cmd.manage import at_once
from nova_sched.cmd.manage.config import (
    ERROR,
    WARNING,
    ConfigFinding,
    certificate_advice,
    config_files,
)
from nova_sched.conf import claims as claims_conf
from nova_sched.conf import quota
from nova_sched.db import address, clock
from nova_sched.db import engine as db_engine
from nova_sched.db.limits import DatabaseLimits

TIMEOUT_S = 10.0  # for Keystone
SKEW_S = 2.0  # a larger difference of clocks is reported


def everything(conf):
    """Returns the findings of all trials, and the names of the services that were reached."""
    tried = at_once.results([functools.partial(_try, trial, conf) for trial in TRIALS.values()])
    found = [finding for problems in tried for finding in problems or []]
    return found, [name for name, problems in zip(TRIALS, tried, strict=True) if problems == []]


def _try(trial, conf):
    try:
        return trial(conf)
    except (errors.BadConfig, errors.StoreUnavailable, cfg.Error, ValueError):
        return None  # the checks that do not connect report it already


# Each trial returns its findings; None if the configuration names no such service.


def bus(conf):
    """RabbitMQ of [DEFAULT] transport_url."""
    made = rpc.transport(conf)
    try:
        if conf.transport_url.startswith('fake:'):
            return None
        return _broker('[DEFAULT] transport_url', lambda: rpc.try_once(made))
    finally:
        made.cleanup()


def broker(conf):
    """RabbitMQ of [queues] transport_url."""
    if not conf.queues.transport_url:
        return None
    return _broker('[queues] transport_url', lambda: queue_service.try_once(conf))


def _broker(where, connect):
    try:
        connect()
    except errors.BrokerRefused as error:
        advice = 'correct the user, the password or the virtual host, or add them to RabbitMQ'
        return [ConfigFinding(ERROR, where, str(error), advice)]
    except errors.BrokerUnavailable as error:
        advice = certificate_advice(error) or 'start RabbitMQ, or correct host and port'
        return [ConfigFinding(ERROR, where, str(error), advice)]
    return []


def database(conf):
    """The clock of the database, which orders claims and reports."""
    if conf.claims.store != 'sql':
        return None
    url = claims_conf.connection(conf)
    file = address.sqlite_file(url)
    if file is not None and not file.exists():
        return None  # a connection would make it
    engine = db_engine.for_command(url, DatabaseLimits.of(conf.database_limits))
    try:
        with db_engine.transaction(engine) as connection:
            ahead_s = clock.read(connection) - time.time()
    finally:
        engine.dispose()
    if abs(ahead_s) <= SKEW_S:
        return []
    which = 'ahead of' if ahead_s > 0 else 'behind'
    problem = f"the database's clock is {abs(ahead_s):.0f} s {which} the clock of this machine"
    advice = "synchronize both; times in lists and logs are the database's"
    return [ConfigFinding(WARNING, '[database] connection', problem, advice)]


def keystone(conf, group='keystone_authtoken'):
    """The account with which the API validates tokens."""
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
        session.timeout = TIMEOUT_S
        session.get_token()
    except (exceptions.Unauthorized, exceptions.NotFound, exceptions.BadRequest) as error:
        problem = f'Keystone refuses the account: {_line(error)}'
        advice = 'correct auth_url, username, password, and the names of project and domains'
        return [ConfigFinding(ERROR, where, problem, advice)]
    except exceptions.ClientException as error:
        problem = f'Keystone does not answer: {_line(error)}'
        advice = certificate_advice(error) or 'start Keystone, or correct auth_url'
        return [ConfigFinding(ERROR, where, problem, advice)]
    return []


def _line(error):
    return str(error).partition('\n')[0]


def limits(conf):
    """The account that reads unified limits."""
    return keystone(conf, 'oslo_limit') if conf.quota.driver == quota.KEYSTONE else None


TRIALS = {
    'bus': bus,
    'broker of queues': broker,
    'database': database,
    'Keystone': keystone,
    'unified limits': limits,
}
