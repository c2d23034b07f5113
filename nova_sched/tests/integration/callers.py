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
"""A process of callers: many calls at once, each answer printed as a line of JSON.

    python -m nova_sched.tests.integration.callers --config-file F -- CALLS AT_ONCE VCPUS SILENCE_S
    [pieces]

A caller asks again after SILENCE_S seconds without an answer. With the last word each asks for
dedicated CPUs, huge pages and a device, see `tests.hardware_objects`. It says `ready` when it has
been answered once, and starts when it is told a line.
"""

import json
import sys
import threading
import uuid

from nova_sched.cmd import backend


def main(argv):
    backend.choose(argv[:2])
    # Only now: these import what the backend patches.
    import oslo_messaging as messaging

    from nova_sched import errors, rpc
    from nova_sched.conf import CONF
    from nova_sched.rpc import client
    from nova_sched.tests.functional.harness import spec
    from nova_sched.tests.hardware_objects import GUEST, PINNED, spec_fields

    CONF(argv[:2], project='nova_sched')
    calls, at_once, vcpus, silence_s = (int(word) for word in argv[3:7])
    inside = {'extra_specs': PINNED, **spec_fields(GUEST)} if 'pieces' in argv[7:] else {}
    bus = rpc.transport(CONF)
    scheduler = client.SchedulerClient(bus, timeout_s=60, monitor_s=silence_s)
    wanted = spec(vcpus=vcpus, **inside)
    left = iter(range(calls))
    lock = threading.Lock()

    def call():
        """One call, made again with the same UUID when there is no answer."""
        instance, tries, error = str(uuid.uuid4()), 0, 'NoAnswer'
        while error == 'NoAnswer' and tries < 5:
            tries += 1
            try:
                (found,) = scheduler.select_destinations(wanted, [instance])
                nodes, error = [one.compute_node_uuid for one in found], None
            except (errors.SchedError, messaging.MessagingException) as failure:
                nodes, error = [], type(failure).__name__
        return {'instance': instance, 'nodes': nodes, 'error': error, 'tries': tries}

    def work():
        while True:
            with lock:
                if next(left, None) is None:
                    return
            answer = json.dumps(call())
            with lock:
                print(answer, flush=True)

    client.ClaimsClient(bus, timeout_s=60).show(str(uuid.uuid4()))
    print('ready', flush=True)
    sys.stdin.readline()
    threads = [threading.Thread(target=work) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == '__main__':
    main(sys.argv[1:])
