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
"""A process of clients, for ``batches``: it says `ready`, waits for a line, calls, and prints what
the calls took, in seconds, as JSON.

Arguments: URL of the bus, exchange, topic, number of threads, seconds.
"""

import json
import sys
import threading
import time
import warnings


def main():
    warnings.simplefilter('ignore')
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    from nova_sched.conf import CONF
    from nova_sched.tests.bench.calls import HERE, Caller

    CONF([], project='nova_sched', default_config_files=[])
    url, exchange, topic, threads, seconds = sys.argv[1:]
    call = Caller(url, exchange, topic, json.loads((HERE / 'request.json').read_text()))
    call()
    print('ready', flush=True)
    sys.stdin.readline()
    took, end_s = [], time.perf_counter() + float(seconds)

    def work():
        while (begin_s := time.perf_counter()) < end_s:
            call()
            took.append(time.perf_counter() - begin_s)

    running = [threading.Thread(target=work) for _ in range(int(threads))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print(json.dumps(took))


if __name__ == '__main__':
    main()
