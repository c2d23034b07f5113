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
"""What a catalogue costs RabbitMQ: queues made, subscriptions changed, memory, at 1,000 to 50,000 queues.

Each row has a broker of its own, and the changes are those of our consumers. A change is a subscription that
begins or ends; another priority is both. Client and broker share the machine. The broker collects no
statistics but in one row: doing so for each subscription is what limits a broker with RabbitMQ's management
plug-in.
"""

import multiprocessing
import time

from nova_sched.conf.queues import CLASSIC, QUORUM
from nova_sched.queues.broker import of_flavor
from nova_sched.queues.brokers.amqp import AmqpBroker
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq

FIELDS = (
    'what,queues,declared s,declared a second,again s,1: changes a second,20: changes a second,'
    'KiB a queue,KiB a subscription,p50 ms,p99 ms'
).split(',')
SIZES = 1_000, 10_000, 50_000
CONSUMERS = 20
MOST = 50_000  # subscriptions of all consumers
PATIENCE_S = 60.0  # for quorum queues; then that is as many as there are
STEP = 1_000
PHASES = 1, 2, None  # priorities
START_S, PHASE_S = 120.0, 600.0  # patience with consumers
SETTLE_S = 6.0  # the broker looks at its memory every now and then


def rows(_budget_s=None):
    for size in SIZES:
        yield _row(CLASSIC, size)
    yield _row(CLASSIC, SIZES[1], statistics=True)
    yield _row(QUORUM, SIZES[0])
    yield _row(QUORUM, SIZES[-1], PATIENCE_S)


def _row(queue_type, most, patience_s=float('inf'), statistics=False):
    with rabbitmq.server() as server:
        if not statistics:
            _end_statistics(server)
        url = server.fresh()
        broker = AmqpBroker(url, queue_type, fallback_after_s=3600.0)
        broker.declare([])
        empty_kib = _memory_kib(server)
        queues, declare_s = _declare(broker, [of_flavor(f'f{n}') for n in range(most)], patience_s)
        again_s = _seconds(lambda: broker.declare(queues))
        full_kib = _memory_kib(server)
        alone = _changes(url, queue_type, [queues])
        # No more than so many at the same time: each has the queues that follow those of the one before.
        share = min(len(queues), MOST // CONSUMERS)
        shares = [[queues[(at * share + n) % len(queues)] for n in range(share)] for at in range(CONSUMERS)]
        memory = []
        together = _changes(url, queue_type, shares, lambda: memory.append(_memory_kib(server)))
        latency = _latency(broker, queues)
        broker.close()
    return {
        'what': f'{queue_type}, with statistics' if statistics else queue_type,
        'queues': f'{len(queues):,}',
        'declared s': f'{declare_s:.1f}',
        'declared a second': f'{len(queues) / declare_s:,.0f}',
        'again s': f'{again_s:.1f}',
        '1: changes a second': f'{alone:,.0f}',
        '20: changes a second': f'{together:,.0f}',
        'KiB a queue': f'{(full_kib - empty_kib) / len(queues):.1f}',
        'KiB a subscription': f'{(memory[0] - full_kib) / (share * CONSUMERS):.1f}',
        'p50 ms': f'{p50_ms(latency):.2f}',
        'p99 ms': f'{p99_ms(latency):.2f}',
    }


def _end_statistics(server):
    with (server.log.parent / 'rabbitmq.conf').open('a') as settings:
        settings.write('management_agent.disable_metrics_collector = true\n')
    server.restart()


def _declare(broker, queues, patience_s):
    """As many as the patience allows, and the seconds that they took."""
    start, done = time.monotonic(), 0
    while done < len(queues) and time.monotonic() - start < patience_s:
        step = STEP if patience_s < float('inf') else len(queues)
        broker.declare(queues[done : done + step])
        done += step
    return queues[:done], time.monotonic() - start


def _changes(url, queue_type, shares, meanwhile=lambda: None):
    """Changes a second: each consumer begins with its queues, has another priority for all, and ends all.

    Each is a process, as on compute nodes. ``meanwhile`` is called while all are subscribed.
    """
    processes = multiprocessing.get_context('spawn')
    together = processes.Barrier(len(shares) + 1)
    consumers = [
        processes.Process(target=_consume, args=(url, queue_type, share, together), daemon=True)
        for share in shares
    ]
    for consumer in consumers:
        consumer.start()
    took_s = 0.0
    for priority in PHASES:
        together.wait(START_S)
        took_s += _seconds(lambda: together.wait(PHASE_S))
        if priority == PHASES[1]:
            meanwhile()
    for consumer in consumers:
        consumer.join()
    return 4 * sum(map(len, shares)) / took_s


def _consume(url, queue_type, share, together):
    broker = AmqpBroker(url, queue_type)
    consumer = broker.consumer(lambda _: None, 'bench')
    for priority in PHASES:
        changes = dict.fromkeys(share, priority)
        together.wait(START_S)
        consumer.follow(changes)
        together.wait(PHASE_S)
    broker.close()


def _latency(broker, queues, count=300):
    """Seconds from before a message is sent until it is delivered, to a consumer of 1,000 of the queues."""
    came = []
    consumer = broker.consumer(lambda found: (came.append(time.perf_counter()), consumer.ack(found)), 'bench')
    consumer.follow(dict.fromkeys(queues[:1_000], 1))
    sent = []
    for n in range(count):
        sent.append(time.perf_counter())
        broker.publish(queues[n % min(len(queues), 1_000)], b'x' * 4_000)
        while len(came) <= n:
            time.sleep(0.0001)
    consumer.stop()
    return [after - before for before, after in zip(sent, came, strict=True)]


def _memory_kib(server):
    """What the broker uses, without messages on their way."""
    time.sleep(SETTLE_S)
    node = server.ask('GET', 'overview')['node']
    memory = server.ask('GET', f'nodes/{node}/memory')['memory']
    return (memory['total']['erlang'] - memory['binary']) / 1024


def _seconds(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start
