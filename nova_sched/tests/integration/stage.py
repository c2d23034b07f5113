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
"""What the scripts that prove something run on: servers of their own, a cloud on them, and a clean
end."""

import argparse
import contextlib
import pathlib
import signal
import sys
import tempfile
import time

from nova_sched.conf import CONF
from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.tests.fixtures import mariadb, postgresql, rabbitmq
from nova_sched.tests.integration.cloud import Cloud

DATABASES = {'postgresql': postgresql, 'mariadb': mariadb}
FILTERS = (
    'ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,'
    'ServerGroupAffinityFilter,NUMATopologyFilter,PciPassthroughFilter'
)
# Hosts report once, and claims are not confirmed: neither may expire while a script runs.
DAY_S = 86400
DAEMONS = {
    'DEFAULT__service_down_time': DAY_S,
    'claims__pending_ttl': DAY_S,
    'claims__refresh_interval': 2.0,  # as it is by default; the tests' daemons are quicker
    'filter_scheduler__enabled_filters': FILTERS,
}


def arguments(what, **numbers):
    """A parser of the options that all scripts have, and of these numbers with their defaults."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument('--database', choices=DATABASES, default='postgresql')
    for name, default in numbers.items():
        parser.add_argument(f'--{name}', type=int, default=default, metavar='N')
    parser.add_argument(
        '--limit', type=int, default=3600, metavar='S', help='end after so many seconds'
    )
    parser.add_argument(
        '--keep', type=pathlib.Path, metavar='FOLDER', help='keep logs and answers here'
    )
    return parser


@contextlib.contextmanager
def folder(kept):
    """A folder to work in: this one, or one that is gone at the end."""
    with contextlib.ExitStack() as end:
        home = kept or pathlib.Path(
            end.enter_context(tempfile.TemporaryDirectory(prefix='nova-sched-'))
        )
        home.mkdir(parents=True, exist_ok=True)
        yield home


def upgraded(server):
    """URL of a new database with our tables."""
    url = server.fresh()
    made = db_engine.create(url)
    schema.upgrade(made)
    made.dispose()
    return url


@contextlib.contextmanager
def private(database, home):
    """(cloud, database server, broker), all of which end with the block."""
    with (
        DATABASES[database].server() as server,
        rabbitmq.server() as broker,
        contextlib.closing(Cloud(home, broker.fresh(), upgraded(server))) as cloud,
    ):
        yield cloud, server, broker


def prepare():
    """Before anything else: SIGTERM ends a script as Ctrl-C does, with all that it has started."""
    CONF([], project='nova_sched', default_config_files=[])
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def tell(*words):
    """A line of progress."""
    print(time.strftime('%H:%M:%S'), *words, file=sys.stderr, flush=True)


def finish(figures, faults, most=10):
    """Print the figures, and what is wrong by what it is about; returns the exit status."""
    for name, value in figures.items():
        print(f'{name:22} {value}')
    for name, found in faults.items():
        print(f'{"wrong: " + name:22} {len(found)}')
        for fault in found[:most]:
            print(f'    {fault}')
    return 1 if any(faults.values()) else 0
