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
begins or ends; another priority is both. Client and broker share the machine. The memory is what the broker
uses, its management plug-in with all its statistics included.
"""

import concurrent.futures
import time

from nova_sched.conf.queues import CLASSIC, QUORUM
from nova_sched.queues.amqp import AmqpBroker
from nova_sched.queues.broker import of_flavor
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq

FIELDS = (
    'what,queues,declared s,declared a second,again s,1: changes a second,20: changes a second,'
    'KiB a queue,of it statistics,KiB a subscription,p50 ms,p99 ms'
).split(',')
SIZES = 1_000, 10_000, 50_000
CONSUMERS = 20
MOST = 50_000  # subscriptions of all consumers
PATIENCE_S = 60.0  # for quorum queues; then that is as many as there are
STEP = 1_000
SETTLE_S = 6.0  # the broker looks at its memory every now and then


def rows(_budget_s=None):
    for size in SIZES:
        yield _row(CLASSIC, size)
    yield _row(QUORUM, SIZES[0])
    yield _row(QUORUM, SIZES[-1], PATIENCE_S)


def _row(queue_type, most, patience_s=float('inf')):
    with rabbitmq.server() as server:
        broker = AmqpBroker(server.fresh(), queue_type, fallback_after_s=3600.0)
        broker.declare([])
        empty = _memory_kib(server)
        queues, declare_s = _declare(broker, [of_flavor(f'f{n}') for n in range(most)], patience_s)
        again_s = _seconds(lambda: broker.declare(queues))
        full = _memory_kib(server)
        alone = _changes(broker, [queues])
        # No more than so many at the same time: each has the queues that follow those of the one before.
        share = min(len(queues), MOST // CONSUMERS)
        shares = [[queues[(at * share + n) % len(queues)] for n in range(share)] for at in range(CONSUMERS)]
        memory = []
        together = _changes(broker, shares, lambda: memory.append(_memory_kib(server)))
        latency = _latency(broker, queues)
        broker.close()
    return {
        'what': queue_type,
        'queues': f'{len(queues):,}',
        'declared s': f'{declare_s:.1f}',
        'declared a second': f'{len(queues) / declare_s:,.0f}',
        'again s': f'{again_s:.1f}',
        '1: changes a second': f'{alone:,.0f}',
        '20: changes a second': f'{together:,.0f}',
        'KiB a queue': f'{(full[0] - empty[0]) / len(queues):.1f}',
        'of it statistics': f'{(full[1] - empty[1]) / len(queues):.1f}',
        'KiB a subscription': f'{(memory[0][0] - full[0]) / (share * CONSUMERS):.1f}',
        'p50 ms': f'{p50_ms(latency):.2f}',
        'p99 ms': f'{p99_ms(latency):.2f}',
    }


def _declare(broker, queues, patience_s):
    """As many as the patience allows, and the seconds that they took."""
    start, done = time.monotonic(), 0
    while done < len(queues) and time.monotonic() - start < patience_s:
        step = STEP if patience_s < float('inf') else len(queues)
        broker.declare(queues[done : done + step])
        done += step
    return queues[:done], time.monotonic() - start


def _changes(broker, shares, meanwhile=lambda: None):
    """Changes a second: each consumer begins with its queues, has another priority for all, and ends all."""
    consumers = [broker.consumer(lambda _: None, f'bench {n}') for n in range(len(shares))]
    changes, took_s = 4 * sum(map(len, shares)), 0.0
    with concurrent.futures.ThreadPoolExecutor(len(shares)) as several:
        for priority in (1, 2, None):

            def follow(consumer, share, priority=priority):
                consumer.follow(dict.fromkeys(share, priority))

            took_s += _seconds(lambda follow=follow: list(several.map(follow, consumers, shares)))
            if priority == 2:
                meanwhile()
    for consumer in consumers:
        consumer.stop()
    return changes / took_s


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
    """What the broker uses, without messages on their way, and what of it is for statistics."""
    time.sleep(SETTLE_S)
    node = server.ask('GET', 'nodes')[0]['name']
    memory = server.ask('GET', f'nodes/{node}/memory')['memory']
    statistics = sum(memory[name] for name in ('mgmt_db', 'plugins', 'metrics'))
    return (memory['total']['erlang'] - memory['binary']) / 1024, statistics / 1024


def _seconds(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start
