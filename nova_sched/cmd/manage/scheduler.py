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
"""`scheduler`: the scheduler processes that share the database, and their figures."""

from nova_sched.cmd.manage import output, store, tables
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.engine.figures import COUNTS
from nova_sched.engine.sync.membership import KEPT_S, SILENT_S


def list_schedulers(args, conf):
    """List scheduler processes, with their figures since their start

    Each process updates its row every few seconds. A process that has not for 12 seconds is
    silent, and after an hour it is no longer listed. One that is stopped is not listed at all. A
    conflict is a request whose claims another scheduler took first. It is decided again, which is
    a retry, as is a request that found nothing before the database was polled. Rates are per
    instance placed.

    Keys: scheduler_uuid, host, pid, state (alive or silent), started_at,
    last_seen, lag_s (seconds since the last poll of the database, by the time of last_seen),
    stale_nodes (that differed from the database at that poll), clock_offset_s (how far the
    process's clock is ahead of the database's, which is the one that counts), placed (instances),
    refused, conflicts, retries, conflict_rate, retry_rate (null before anything was placed), busy
    (transactions that were repeated because of a conflict with another one), batches,
    fragmentation (as 'fragmentation show' has it for all hosts, when the scheduler last
    refreshed its tables; null without FragmentationWeigher).
    """
    schedulers = SqlSchedulers(store.ready(conf))
    now_s = schedulers.now_s()
    alive = schedulers.alive(now_s - KEPT_S)
    output.show(args, [row(facts, now_s) for facts in alive], columns(now_s))
    return 0


def row(facts, now_s):
    """A process as its keys and values."""
    figures = facts.figures
    counts = {name: figures.get(name, 0) for name in COUNTS}
    return {
        'scheduler_uuid': facts.uuid,
        'host': facts.host,
        'pid': facts.pid,
        'state': 'alive' if now_s - facts.seen_s <= SILENT_S else 'silent',
        'started_at': tables.moment(facts.started_s),
        'last_seen': tables.moment(facts.seen_s),
        'lag_s': figures.get('look_lag_s'),
        'stale_nodes': figures.get('stale_nodes', 0),
        'clock_offset_s': figures.get('clock_offset_s'),
        **counts,
        'conflict_rate': _rate(counts['conflicts'], counts['placed']),
        'retry_rate': _rate(counts['retries'], counts['placed']),
        'fragmentation': figures.get('fragmentation'),
    }


def _rate(count, placed):
    return round(count / placed, 4) if placed else None


def columns(now_s):
    def state(row):
        if row['state'] == 'alive':
            return 'alive'
        return f'silent, seen {tables.age(row["last_seen"], now_s)}'

    def clock(row):
        offset_s = row['clock_offset_s']
        return '-' if offset_s is None else f'{offset_s:+.1f} s'

    return {
        'Host': lambda row: row['host'],
        'PID': lambda row: row['pid'],
        'State': state,
        'Started': lambda row: tables.age(row['started_at'], now_s),
        'Lag': lambda row: _lag(row['lag_s']),
        'Stale': lambda row: row['stale_nodes'],
        'Clock': clock,
        'Placed': lambda row: row['placed'],
        'Refused': lambda row: row['refused'],
        'Conflicts': lambda row: _share(row['conflicts'], row['conflict_rate']),
        'Retries': lambda row: _share(row['retries'], row['retry_rate']),
    }


def _lag(seconds):
    if seconds is None:
        return '-'
    return f'{seconds:.1f} s' if seconds >= 1 else f'{seconds * 1000:.0f} ms'


def _share(count, rate):
    return str(count) if rate is None else f'{count} ({rate:.2%})'


VERBS = (('list', list_schedulers),)
