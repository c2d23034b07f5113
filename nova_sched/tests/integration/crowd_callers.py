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
"""A process of callers: takes orders as lines of JSON, and prints each with its answer as a line
of JSON.

    python -m nova_sched.tests.integration.crowd_callers --config-file FILE -- AT_ONCE TIMEOUT_S

See `caller` for what it takes and tells. Who hears nothing of the scheduler for TIMEOUT_S seconds
asks again; 0 waits. It says `ready` when it has been answered once, and ends when there is nothing
more to read.
"""

import json
import queue
import sys
import threading

from nova_sched.cmd import backend


def main(argv):
    backend.choose(argv[:2])
    # Only now: these import what the backend patches.
    from nova_sched import rpc
    from nova_sched.conf import CONF
    from nova_sched.tests.integration.caller import Caller

    CONF(argv[:2], project='nova_sched')
    at_once, timeout_s = int(argv[3]), float(argv[4])
    caller, orders, lock = Caller(rpc.transport(CONF), timeout_s), queue.Queue(), threading.Lock()

    def work():
        while (order := orders.get()) is not None:
            answer = json.dumps(caller.call(order))
            with lock:
                print(answer, flush=True)

    caller.greet()
    for _ in range(at_once):
        # Daemons: when this process's input and output are closed, their answers are not
        # needed any more.
        threading.Thread(target=work, daemon=True).start()
    print('ready', flush=True)
    for line in sys.stdin:
        orders.put(json.loads(line))


if __name__ == '__main__':
    main(sys.argv[1:])
