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
"""Questions to running services: to a scheduler, over the bus, for the verbs that cannot be
answered from the database; and to several services at once."""

import concurrent.futures
import threading
import time

from nova_sched import errors

SLACK_S = 0.5  # seconds that the bus may take to say that there was no answer


def ask(args, conf, client, question):
    """Return the scheduler's answer to ``question(caller)``. Raises NoAnswer, and
    BrokerUnavailable at once if the bus is away.

    The timeout is that of the whole command, which began at ``args.begun_s``.
    ``client`` is the name of a class in rpc.client, or a function of the bus and the timeout.
    """
    from nova_sched import rpc  # late: most verbs do not use the bus
    from nova_sched.rpc import client as clients

    bus, answer = rpc.transport(conf), concurrent.futures.Future()
    connected = threading.Event()
    made_by = client if callable(client) else getattr(clients, client)
    caller = made_by(bus, timeout_s=args.timeout)

    def work():
        try:
            rpc.try_once(bus)
            connected.set()
            answer.set_result(question(caller))
        except BaseException as error:  # noqa: BLE001, it is raised again by the waiting thread
            answer.set_exception(error)

    # A daemon thread does not keep the program alive: oslo.messaging retries an unreachable bus
    # forever.
    threading.Thread(target=work, daemon=True).start()
    try:
        return answer.result(args.timeout + SLACK_S - (time.monotonic() - args.begun_s))
    except concurrent.futures.TimeoutError:
        why = 'the message bus cannot be reached'
        if connected.is_set():
            why = f'it did not come within {args.timeout} s'
        raise errors.NoAnswer(args.verb.__name__, why) from None
    finally:
        if answer.done():
            bus.cleanup()


def results(works):
    """Return what each of these functions returns, in their order. Raises the first error."""
    with concurrent.futures.ThreadPoolExecutor(max(len(works), 1)) as pool:
        return list(pool.map(lambda work: work(), works))
