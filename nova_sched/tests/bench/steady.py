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
"""A daemon under steady load for a long time: `python -m nova_sched.tests.bench.steady`.

Callers repeat requests for a fixed set of instances, so that the number of claims stays. Each
minute prints the rate, what calls took, and the memory of the daemon.
"""

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import pathlib
import tempfile
import time
import uuid
import warnings

CALLERS = 16
INSTANCES = 5_000
MEASURE_S = 15.0


class Instances:
    """Calls for the same instances again and again; from any thread."""

    def __init__(self, caller):
        self._caller = caller
        self._uuids = itertools.cycle([str(uuid.uuid4()) for _ in range(INSTANCES)])

    def __call__(self, due_s=None):
        """Return what the call took, in seconds: since it was due, on the monotonic clock, or
        else since it began."""
        begin_s = time.monotonic() if due_s is None else due_s
        self._caller(next(self._uuids))
        return time.monotonic() - begin_s


def paced(call, rate, seconds):
    """What calls took that are due ``rate`` times a second, the wait for a free caller
    included."""
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        begin_s, futures = time.monotonic(), []
        for number in range(int(rate * seconds)):
            due_s = begin_s + number / rate
            time.sleep(max(0.0, due_s - time.monotonic()))
            futures.append(pool.submit(call, due_s))
        return [future.result() for future in futures]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--minutes', type=int, default=60)
    parser.add_argument('--share', type=float, default=0.8, help='of the highest rate')
    parser.add_argument('--rpc-server', choices=('direct', 'oslo'), default='direct')
    parser.add_argument('--hosts', type=int, default=10_000)
    arguments = parser.parse_args()
    warnings.simplefilter('ignore')
    from oslo_log import log
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    import psutil

    from nova_sched import rpc
    from nova_sched.conf import CONF
    from nova_sched.tests.bench import calls, commits
    from nova_sched.tests.bench.timing import p50_ms, p99_ms
    from nova_sched.tests.fixtures import rabbitmq

    log.register_options(CONF)
    CONF([], project='nova_sched', default_config_files=[])
    request = json.loads((calls.HERE / 'request.json').read_text())
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(rabbitmq.server())
        commits.sqlite_store(folder, arguments.hosts)
        running = stack.enter_context(
            calls.daemon(folder, broker.url, rpc_server=arguments.rpc_server)
        )
        call = Instances(calls.Caller(broker.url, rpc.EXCHANGE, rpc.TOPIC, request))
        for _ in range(INSTANCES):
            call()
        highest = calls.in_flight(call, CALLERS, MEASURE_S)
        rate = arguments.share * highest
        print(f'{highest:,.0f} calls a second at most; {rate:,.0f} from now on', flush=True)
        daemon = psutil.Process(running.pid)
        for minute in range(1, arguments.minutes + 1):
            begin_s = time.monotonic()
            took = paced(call, rate, 60.0)
            seconds = time.monotonic() - begin_s
            memory = sum(
                one.memory_info().rss for one in (daemon, *daemon.children(recursive=True))
            )
            print(
                f'{minute:3} min: {len(took) / seconds:4.0f} a second, p50 {p50_ms(took):5.1f}, '
                f'p99 {p99_ms(took):6.1f} ms, memory {memory / 2**20:,.0f} MiB',
                flush=True,
            )


if __name__ == '__main__':
    main()
