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
"""Creation of random groups through the engine, on the fleets of ``joint_groups``: what a call
costs this process, and its parts.

Parts are processor time of their thread: on a busy machine only this can be compared.

::

    python -m nova_sched.tests.bench.joint_create --size 50:2000 200:10000 --groups 20
"""

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import sys
import tempfile
import time
import warnings

from nova_sched import errors, service
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf import CONF
from nova_sched.db import engine, schema
from nova_sched.engine.groups import operations
from nova_sched.engine.groups.plans import Plans
from nova_sched.engine.groups.views import GroupViews
from nova_sched.state.host_aggregate import ZONE_KEY, HostAggregate
from nova_sched.tests.bench import joint_groups
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.builders import report
from nova_sched.tests.options import settings
from nova_sched.tests.stores import MemoryClaimStore

SETTINGS = {
    'topology.levels': list(joint_groups.LEVELS),
    'topology.orders': [],
    'filter_scheduler.track_instance_changes': False,
    # Hosts report once.
    'default.service_down_time': 10**6,
    'groups.explain_seconds': 0.0,
    'claims.store': 'sql',
}
STORES = 'memory', 'sql'


def reports(fleet):
    """A report of each host."""
    for host, (total, free) in enumerate(
        zip(fleet.total.tolist(), fleet.free.tolist(), strict=True)
    ):
        traits = frozenset(['CUSTOM_FAST_DISK']) if fleet.fast[host] else frozenset()
        yield report(
            f'host-{host:05}',
            vcpus=total[0],
            vcpus_used=total[0] - free[0],
            memory_mb=total[1],
            memory_mb_used=total[1] - free[1],
            disk_gb=10_000,
            num_instances=int(free[0] < total[0]),
            traits=traits,
            stats={'rack': f'rack-{fleet.rack[host]}'},
        )


def filled(store, fleet):
    """The store, with the reports of the fleet, and a zone for each of its zones."""
    store.report(list(reports(fleet)), time.time())
    for zone in range(int(fleet.zone[-1]) + 1):
        rows = (fleet.zone == zone).nonzero()[0].tolist()
        hosts = frozenset(f'host-{host:05}' for host in rows)
        store.set_aggregate(
            zone + 1,
            HostAggregate(zone + 1, f'zone-{zone}', hosts, {ZONE_KEY: f'zone-{zone}'}),
        )
    return store


@contextlib.contextmanager
def scheduler(fleet, kind, **more):
    """A scheduler over a new store of that kind (STORES) with the fleet in it."""
    with tempfile.TemporaryDirectory() as folder, settings(SETTINGS | more):
        storage = None
        if kind == 'sql':
            storage = engine.create(f'sqlite:///{pathlib.Path(folder)}/claims.sqlite')
            schema.upgrade(storage)
        store = MemoryClaimStore() if storage is None else SqlClaimStore(storage)
        made = service.scheduler(CONF, filled(store, fleet))
        made.start()
        try:
            yield made
        finally:
            made.stop()
            if storage is not None:
                storage.dispose()


class Parts:
    """Seconds of the parts of the calls, by name, while it is entered."""

    WATCHED = (
        (Plans, 'draft'),
        (operations.joint, 'place'),
        (Plans, 'take'),
        (Plans, 'claims'),
        (GroupViews, 'see'),
        (GroupViews, 'with_changes'),
    )

    def __init__(self):
        self.seconds = collections.Counter()
        self._patched = []

    def __enter__(self):
        for owner, name in self.WATCHED:
            if hasattr(owner, name):
                self._patched.append((owner, name, getattr(owner, name)))
                setattr(owner, name, self._timed(name, getattr(owner, name)))
        return self

    def __exit__(self, *_):
        for owner, name, function in self._patched:
            setattr(owner, name, function)

    def _timed(self, name, function):
        def timed(*arguments, **words):
            began_s = time.thread_time()
            try:
                return function(*arguments, **words)
            finally:
                self.seconds[name] += time.thread_time() - began_s

        return timed


@dataclasses.dataclass
class Creation:
    """One group: seconds of the call, of the processor, of its parts; and how it ended."""

    seconds: float
    cpu_s: float
    parts: collections.Counter
    ended: str


def create(made, seed, members):
    """The Creation of the group of that seed. The group is deleted at once."""
    definition = joint_groups.group(joint_groups.shape(seed), members, seed)
    with Parts() as parts:
        began_s, began_cpu_s, view = time.perf_counter(), time.process_time(), None
        try:
            view = made.groups.create(definition, {}, name=f'group {seed}')
            ended = 'placed'
        except errors.GroupRefused as refusal:
            proven = (refusal.details or {}).get('proven')
            ended = 'impossible' if proven else 'undecided'
        seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    if view is not None:
        made.groups.delete(view.uuid)
    return Creation(seconds, cpu_s, parts.seconds, ended)


def _ms(values):
    return f'{p50_ms(values):.1f}/{p99_ms(values):.0f}' if values else '-'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--size', nargs='+', default=['50:2000', '200:10000'], help='members:hosts'
    )
    parser.add_argument('--share', type=float, default=0.85, help='of all vCPUs in use')
    parser.add_argument('--groups', type=int, default=20)
    parser.add_argument('--first', type=int, default=300)
    parser.add_argument('--store', choices=STORES, default='sql')
    parser.add_argument('--improve', type=float, help='seconds; default: as configured')
    arguments = parser.parse_args()
    warnings.simplefilter('ignore')
    from oslo_log import log

    log.register_options(CONF)
    CONF([], project='nova_sched', default_config_files=[])
    more = {} if arguments.improve is None else {'groups.improve_seconds': arguments.improve}
    for size in arguments.size:
        members, hosts = map(int, size.split(':'))
        fleet = joint_groups.fleet(hosts, arguments.share, arguments.first // 10)
        with scheduler(fleet, arguments.store, **more) as made:
            every = [
                create(made, seed, members)
                for seed in range(arguments.first, arguments.first + arguments.groups)
            ]
        print(
            f'{members} members, {hosts} hosts, {arguments.store}:',
            dict(collections.Counter(one.ended for one in every)),
        )
        placed = [one for one in every if one.ended == 'placed']
        print('  p50/p99 ms: time  ', _ms([one.seconds for one in placed]))
        print('  processor time    ', _ms([one.cpu_s for one in placed]))
        for _, name in Parts.WATCHED:
            print(f'  {name:16}', _ms([one.parts[name] for one in placed]))
    print(f'load {os.getloadavg()[0]:.1f}', file=sys.stderr)


if __name__ == '__main__':
    main()
