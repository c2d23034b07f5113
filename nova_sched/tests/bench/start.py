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
"""From an empty process to its first answer: the time and the memory of a scheduler that starts on
a filled database."""

import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import uuid
import warnings

SIZES = (10_000, 100_000)
CLAIMS = 50_000
BATCH = 1_000


def fill(folder, hosts):
    """The URL of a database with that many hosts and CLAIMS pending claims."""
    from nova_sched.claim import Claim
    from nova_sched.claims import Placement
    from nova_sched.tests.bench import commits

    store, names = commits.sqlite_store(folder, hosts)
    for start in range(0, CLAIMS, BATCH):
        placements = [
            Placement(
                (
                    Claim(
                        str(uuid.uuid4()),
                        names[number * 7919 % hosts],
                        commits.RESOURCES,
                        created_s=time.time(),
                        expires_s=2e9,
                    ),
                )
            )
            for number in range(start, start + BATCH)
        ]
        store.commit(placements)
    return f'sqlite:///{folder}/claims.sqlite'


def rows(budget_s=2.0, sizes=SIZES):
    for hosts in sizes:
        with tempfile.TemporaryDirectory() as folder:
            url = fill(pathlib.Path(folder), hosts)
            command = [sys.executable, '-W', 'ignore', '-m', 'nova_sched.tests.bench.start', url]
            begin_s = time.perf_counter()
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            all_s, found = time.perf_counter() - begin_s, json.loads(done.stdout)
        steps = f'{found["import_s"]:.1f} + {found["read_s"]:.1f} + {found["first_s"]:.2f} s'
        yield {
            'what': f'start, {hosts:,} hosts, {CLAIMS:,} claims: imports, reading, first: {steps}',
            'p50': f'{all_s:.1f} s',
            'floor': f'{found["memory_mb"]:,.0f} MiB',
        }


def main():
    """Start a scheduler on a filled database; its URL is the first argument."""
    warnings.simplefilter('ignore')
    begin_s = time.perf_counter()
    import psutil
    from oslo_log import log
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    from nova_sched import service
    from nova_sched.conf import CONF
    from nova_sched.tests.bench import fleet

    imported_s = time.perf_counter()
    log.register_options(CONF)
    CONF([], project='nova_sched', default_config_files=[])
    CONF.set_override('connection', sys.argv[1], 'database')
    # Filling the database takes longer than a minute.
    CONF.set_override('service_down_time', 86400)
    made = service.scheduler(CONF, engine=service.shared(CONF))
    gc.disable()  # as the service
    made.start()
    gc.enable()
    service.collect_seldom()
    read_s = time.perf_counter()
    made.place([fleet.request()], alternates=True)
    end_s = time.perf_counter()
    memory = psutil.Process().memory_info().rss
    figures = {
        'import_s': imported_s - begin_s,
        'read_s': read_s - imported_s,
        'first_s': end_s - read_s,
        'memory_mb': memory / 2**20,
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)


if __name__ == '__main__':
    main()
