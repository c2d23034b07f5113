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
"""Time limits for a connection to a database server: in its driver, in TCP and in the server's
session."""

import dataclasses
import re
import socket

from nova_sched.conf.claims import DATABASE_LIMITS_OPTS

# A server ends a statement before its client stops waiting, so the client learns the result.
MARGIN_S = 2
# For statements that read whole tables. A server that hangs may not keep a command for ever.
AUDIT_S = 300
# Keepalive begins after half of the permitted silence, and probes during the other half.
PROBES = 5


@dataclasses.dataclass(frozen=True, slots=True)
class DatabaseLimits:
    """Time limits in seconds, as whole numbers; 0 keeps the value of the server, the driver or the
    operating system."""

    connect_s: int
    silence_s: int
    statement_s: int
    lock_s: int
    idle_s: int

    @classmethod
    def of(cls, options):
        """The limits in the options of [database_limits], given as a mapping by name."""
        return cls(
            *(
                options[f'{field.name.removesuffix("_s")}_timeout']
                for field in dataclasses.fields(cls)
            )
        )

    @property
    def answer_s(self):
        """How long the client waits for the answer to a statement; 0 for no limit."""
        return self.statement_s and self.statement_s + MARGIN_S

    def for_audit(self):
        """The limits for reading whole tables."""
        return dataclasses.replace(self, statement_s=self.statement_s and AUDIT_S)

    def for_upgrade(self):
        """The limits for a schema change: MariaDB could not roll back an interrupted one."""
        return dataclasses.replace(self, statement_s=0, lock_s=0, idle_s=0)


DEFAULT = DatabaseLimits.of({option.name: option.default for option in DATABASE_LIMITS_OPTS})


def of_driver(limits, driver):
    """Arguments of the driver's ``connect``, by name."""
    if driver in ('psycopg2', 'psycopg'):
        return {'connect_timeout': limits.connect_s} | _keepalive_of_libpq(limits.silence_s)
    if driver == 'pymysql':
        # The server's greeting is read within the time for an answer; after_connect extends that
        # time.
        write = {'write_timeout': limits.answer_s} if limits.answer_s else {}
        return {'connect_timeout': limits.connect_s, 'read_timeout': limits.connect_s} | write
    return {}


def _keepalive_of_libpq(silence_s):
    if not silence_s:
        return {}
    return {
        'keepalives': 1,
        'keepalives_idle': _half(silence_s),
        'keepalives_interval': _probe_interval(silence_s),
        'keepalives_count': PROBES,
        'tcp_user_timeout': silence_s * 1000,
    }


def after_connect(limits, connection, chosen):
    """Set the limits for which PyMySQL has no arguments. ``chosen``: names of those that the
    operator has set."""
    # Neither has a public name; both are the same in all supported releases.
    if 'read_timeout' not in chosen:
        connection._read_timeout = limits.answer_s or None
    sock = connection._sock
    if limits.silence_s and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _half(limits.silence_s))
        sock.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _probe_interval(limits.silence_s)
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.silence_s * 1000)


def _half(silence_s):
    return max(1, silence_s // 2)


def _probe_interval(silence_s):
    return max(1, silence_s // (2 * PROBES))


def of_session(limits, kind, said=''):
    """Statements that set up a session of PostgreSQL, MariaDB or MySQL (``kind``, in lower case).

    ``said`` is the operator's own text about the session. A limit that is named in it is left
    alone.

    Every statement sees the data committed before it: a transaction that waited for a lock must
    not read older data. The operator may change the servers' own defaults. The time zone is set
    for the server's clock, which statements read.
    """
    kept = {name: value for name, value in _LIMITS[kind](limits).items()
            if value and not re.search(rf'\b{name}\b', said, re.IGNORECASE)}  # fmt: skip
    if kind == 'postgresql':
        wanted = {'default_transaction_isolation': "'read committed'", 'TimeZone': "'UTC'"} | kept
        return ['; '.join(f'SET {name} = {value}' for name, value in wanted.items())]
    wanted = {'time_zone': "'+00:00'"} | kept
    return [
        'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
        'SET SESSION ' + ', '.join(f'{name} = {value}' for name, value in wanted.items()),
    ]


def _of_postgresql(limits):
    """In milliseconds."""
    return {
        'statement_timeout': limits.statement_s * 1000,
        'lock_timeout': limits.lock_s * 1000,
        'idle_in_transaction_session_timeout': limits.idle_s * 1000,
    }


def _of_mariadb(limits):
    """In seconds; the second lock limit is for a table's definition."""
    return {
        'max_statement_time': limits.statement_s,
        'innodb_lock_wait_timeout': limits.lock_s,
        'lock_wait_timeout': limits.lock_s,
        'idle_transaction_timeout': limits.idle_s,
    }


def _of_mysql(limits):
    """MySQL ends no statement that writes, and no idle transaction."""
    return {
        'max_execution_time': limits.statement_s * 1000,
        'innodb_lock_wait_timeout': limits.lock_s,
        'lock_wait_timeout': limits.lock_s,
    }


_LIMITS = {'postgresql': _of_postgresql, 'mariadb': _of_mariadb, 'mysql': _of_mysql}
