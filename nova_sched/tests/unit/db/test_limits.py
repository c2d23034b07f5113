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
"""Tests of the limits of a connection: what goes to the driver, and what is said to the server."""

import dataclasses

from nova_sched.conf import CONF
from nova_sched.db import limits
from nova_sched.db.limits import DEFAULT, DatabaseLimits
from nova_sched.tests.rows import table

NONE = DatabaseLimits(connect_s=4, silence_s=0, statement_s=0, lock_s=0, idle_s=0)


def test_the_options_are_the_limits():
    assert DatabaseLimits.of(CONF.database_limits) == DEFAULT == DatabaseLimits(4, 10, 8, 6, 5)


def test_a_silent_server_is_noticed_within_15_seconds():
    """Its connection is given up, and a new one is tried in vain."""
    assert max(DEFAULT.answer_s, DEFAULT.silence_s) + DEFAULT.connect_s < 15


def test_locks_are_free_before_those_who_wait_give_up():
    assert DEFAULT.idle_s < DEFAULT.lock_s < DEFAULT.statement_s < DEFAULT.answer_s


@table(
    'given, driver, expected',
    {
        'PostgreSQL': (
            DEFAULT,
            'psycopg2',
            {
                'connect_timeout': 4,
                'keepalives': 1,
                'keepalives_idle': 5,
                'keepalives_interval': 1,
                'keepalives_count': 5,
                'tcp_user_timeout': 10_000,
            },
        ),
        'PostgreSQL, none': (NONE, 'psycopg2', {'connect_timeout': 4}),
        'MySQL': (
            DEFAULT,
            'pymysql',
            {'connect_timeout': 4, 'read_timeout': 4, 'write_timeout': 10},
        ),
        'MySQL, none': (NONE, 'pymysql', {'connect_timeout': 4, 'read_timeout': 4}),
        'a driver that is not known': (DEFAULT, 'asyncpg', {}),
    },
)
def test_what_the_driver_gets(given, driver, expected):
    assert limits.of_driver(given, driver) == expected


@table(
    'given, kind, said, expected',
    {
        'PostgreSQL': (
            DEFAULT,
            'postgresql',
            '',
            (
                'statement_timeout = 8000, lock_timeout = 6000, '
                'idle_in_transaction_session_timeout = 5000'
            ),
        ),
        'MariaDB': (
            DEFAULT,
            'mariadb',
            '',
            (
                'max_statement_time = 8, innodb_lock_wait_timeout = 6, lock_wait_timeout = 6, '
                'idle_transaction_timeout = 5'
            ),
        ),
        'MySQL': (
            DEFAULT,
            'mysql',
            '',
            'max_execution_time = 8000, innodb_lock_wait_timeout = 6, lock_wait_timeout = 6',
        ),
        'an audit': (
            DEFAULT.for_audit(),
            'postgresql',
            '',
            (
                'statement_timeout = 300000, lock_timeout = 6000, '
                'idle_in_transaction_session_timeout = 5000'
            ),
        ),
        'an upgrade': (DEFAULT.for_upgrade(), 'mariadb', '', ''),
        'an operator on PostgreSQL': (
            dataclasses.replace(DEFAULT, idle_s=0),
            'postgresql',
            '-c Statement_Timeout=1 -c lock_timeout=300',
            '',
        ),
        'an operator on MariaDB': (
            DEFAULT,
            'mariadb',
            'SET SESSION lock_wait_timeout=1, max_statement_time=2',
            'innodb_lock_wait_timeout = 6, idle_transaction_timeout = 5',
        ),
    },
)
def test_what_the_server_is_told(given, kind, said, expected):
    told = [setting for setting in expected.split(', ') if setting]
    if kind == 'postgresql':
        always = ["default_transaction_isolation = 'read committed'", "TimeZone = 'UTC'"]
        statements = ['; '.join(f'SET {setting}' for setting in always + told)]
    else:
        isolation = 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED'
        statements = [isolation, 'SET SESSION ' + ', '.join(["time_zone = '+00:00'", *told])]
    assert limits.of_session(given, kind, said) == statements


@table(
    'given, answer_s',
    {
        'audit': (DEFAULT.for_audit(), 302),
        'no limit': (dataclasses.replace(DEFAULT, statement_s=0).for_audit(), 0),
        'upgrade': (DEFAULT.for_upgrade(), 0),
    },
)
def test_work_that_takes_long_is_waited_for(given, answer_s):
    assert given.answer_s == answer_s
    assert given.silence_s == DEFAULT.silence_s
