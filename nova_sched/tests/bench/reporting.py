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
"""Reports a second: ComputeNode objects through the door's checks, the engine and SQLite."""

import json
import pathlib
import random
import tempfile
import time

from nova_sched import objects, service
from nova_sched.conf import CONF
from nova_sched.rpc import reports
from nova_sched.tests.bench import commits
from nova_sched.tests.bench.timing import in_threads

NODE = json.loads(pathlib.Path(__file__).with_name('node.json').read_text())


def rows(budget_s=2.0, nodes=1_000):
    """Every report differs from the one before it, as on a busy node."""
    with tempfile.TemporaryDirectory() as folder:
        store, names = commits.sqlite_store(pathlib.Path(folder), nodes)
        scheduler = service.scheduler(CONF, store)
        scheduler.start()
        counts = [0] * 16
        end = time.perf_counter() + budget_s

        def report(worker):
            chance = random.Random(worker)
            while time.perf_counter() < end:
                place = chance.randrange(nodes)
                host = f'compute-{place:06}'
                facts = {'uuid': names[place], 'host': host, 'hypervisor_hostname': host}
                facts['memory_mb_used'] = 512 + chance.randrange(100_000)
                primitive = {**NODE, 'nova_object.data': {**NODE['nova_object.data'], **facts}}
                scheduler.report(reports.report(objects.from_primitive(primitive)))
                counts[worker] += 1

        in_threads(report, len(counts))
        scheduler.stop()
        rate = sum(counts) / budget_s
        yield {
            'what': f'reports with new figures, SQLite, {nodes:,} hosts',
            'a second': f'{rate:,.0f}',
            'floor': '10,000 hosts each 60 s: 167 a second',
            'ratio': f'{rate / (10_000 / 60):.1f}',
        }
