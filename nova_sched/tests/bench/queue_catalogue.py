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
"""What a catalogue costs RabbitMQ: queues made, subscriptions changed, memory, at 1,000 to 50,000
queues.

Each row has a broker of its own, and the changes are those of our consumers. A change is a
subscription that begins or ends; another priority is both. What it costs is the processors' time,
of the consumer and of the broker, while there is one consumer. Client and broker share the
machine. The broker collects no statistics but in one row: what RabbitMQ's management plug-in has
it keep for each subscription takes memory.

A row alone: `python -m nova_sched.tests.bench.queue_catalogue --queues 10000 --type quorum`.
"""

import argparse
import json
import multiprocessing
import time

import psutil

from nova_sched import errors
from nova_sched.extensions.queues.brokers import of_flavor
from nova_sched.extensions.queues.brokers.amqp import AmqpBroker
from nova_sched.extensions.queues.conf import CLASSIC, QUORUM
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq

FIELDS = (
    'what,queues,declared s,declared a second,again s,1: changes a second,20: changes a second,'
    'us ours,us broker,KiB a queue,KiB a subscription,p50 ms,p99 ms'
).split(',')
SIZES = 1_000, 10_000, 50_000
QUORUM_SIZES = (
    1_000,
    5_000,
)  # RabbitMQ takes three file handles for each, and refuses connections without any left
CONSUMERS = 20
MOST = 50_000  # subscriptions of all consumers
PHASES = 1, 2, None  # priorities
START_S, PHASE_S = 300.0, 900.0  # timeouts of consumers
SETTLE_S = 6.0  # between looks at the broker's memory, which it looks at every now and then itself


def rows(_budget_s=None):
    for size in SIZES:
        yield _row(CLASSIC, size)
    yield _row(CLASSIC, SIZES[1], statistics=True)
    for size in QUORUM_SIZES:
        yield _row(QUORUM, size)


def _row(queue_type, size, statistics=False):
    with rabbitmq.server() as server:
        if not statistics:
            _end_statistics(server)
        url = server.fresh()
        broker = AmqpBroker(url, queue_type, fallback_after_s=3600.0)
        empty_kib = _memory_kib(server)
        queues = [of_flavor(f'f{n}') for n in range(size)]
        declare_s = _seconds(lambda: broker.declare(queues))
        again_s = _seconds(lambda: broker.declare(queues))
        full_kib = _memory_kib(server)
        alone, ours_s, brokers_s = _changes(url, queue_type, [queues])
        # No more than so many at the same time: each has the queues that follow those of the one
        # before.
        share = min(size, MOST // CONSUMERS)
        shares = [
            [queues[(at * share + n) % size] for n in range(share)] for at in range(CONSUMERS)
        ]
        memory = []
        together, _, _ = _changes(
            url, queue_type, shares, lambda: memory.append(_memory_kib(server))
        )
        latency = _latency(broker, queues)
        broker.close()
    return {
        'what': f'{queue_type}, with statistics' if statistics else queue_type,
        'queues': f'{size:,}',
        'declared s': f'{declare_s:.1f}',
        'declared a second': f'{size / declare_s:,.0f}',
        'again s': f'{again_s:.1f}',
        '1: changes a second': f'{alone:,.0f}',
        '20: changes a second': f'{together:,.0f}',
        'us ours': f'{1e6 * ours_s:.0f}',
        'us broker': f'{1e6 * brokers_s:.0f}',
        'KiB a queue': f'{(full_kib - empty_kib) / size:.1f}',
        'KiB a subscription': f'{(memory[0] - full_kib) / (share * CONSUMERS):.1f}',
        'p50 ms': f'{p50_ms(latency):.2f}',
        'p99 ms': f'{p99_ms(latency):.2f}',
    }


def _end_statistics(server):
    with (server.log.parent / 'rabbitmq.conf').open('a') as settings:
        settings.write('management_agent.disable_metrics_collector = true\n')
    server.restart()


def _changes(url, queue_type, shares, meanwhile=lambda: None):
    """Each consumer begins with its queues, has another priority for all, and ends all.

    Returns the changes a second of all, and the processors' time for one, of consumers and of the
    broker. Each consumer is a process, as on compute nodes. ``meanwhile`` is called while all are
    subscribed.
    """
    processes = multiprocessing.get_context('spawn')
    together, ours_s = processes.Barrier(len(shares) + 1), processes.Value('d', 0.0)
    consumers = [
        processes.Process(
            target=_consume, args=(url, queue_type, share, together, ours_s), daemon=True
        )
        for share in shares
    ]
    for consumer in consumers:
        consumer.start()
    took_s = brokers_s = 0.0
    for priority in PHASES:
        together.wait(START_S)
        brokers_s -= _broker_cpu_s()
        took_s += _seconds(lambda: together.wait(PHASE_S))
        brokers_s += _broker_cpu_s()
        if priority == PHASES[1]:
            meanwhile()
    for consumer in consumers:
        consumer.join()
    changes = 4 * sum(map(len, shares))
    return changes / took_s, ours_s.value / changes, brokers_s / changes


def _consume(url, queue_type, share, together, ours_s):
    broker = AmqpBroker(url, queue_type)
    try:
        consumer = _consumer(broker, lambda _: None)
        for priority in PHASES:
            changes = dict.fromkeys(share, priority)
            together.wait(START_S)
            before_s = time.process_time()
            consumer.follow(changes)
            with ours_s.get_lock():
                ours_s.value += time.process_time() - before_s
            together.wait(PHASE_S)
    except BaseException:
        together.abort()  # no other thread needs to wait for this one
        raise
    broker.close()


def _consumer(broker, deliver):
    """One that waits for a broker that is still busy with new queues."""
    end_s = time.monotonic() + START_S
    while True:
        try:
            return broker.consumer(deliver, 'bench')
        except errors.BrokerUnavailable:
            if time.monotonic() > end_s:
                raise
            time.sleep(1.0)


def _broker_cpu_s():
    """Seconds of all processors that the broker has used."""
    times = [
        one.cpu_times()
        for one in psutil.Process().children(recursive=True)
        if 'beam' in one.name()
    ]
    return sum(one.user + one.system for one in times)


def _latency(broker, queues, count=300):
    """Seconds from before a message is sent until it is delivered, to a consumer of 1,000 of the
    queues."""
    came = []
    consumer = _consumer(
        broker, lambda found: (came.append(time.perf_counter()), consumer.ack(found))
    )
    queues = queues[:1_000]
    consumer.follow(dict.fromkeys(queues, 1))
    sent = []
    for n in range(count):
        sent.append(time.perf_counter())
        broker.publish(queues[n % len(queues)], b'x' * 4_000)
        while len(came) <= n:
            time.sleep(0.0001)
    consumer.stop()
    return [after - before for before, after in zip(sent, came, strict=True)]


def _memory_kib(server):
    """What the broker uses, without messages on their way, as soon as it falls no more."""
    node = server.ask('GET', 'overview')['node']
    least = float('inf')
    while True:
        time.sleep(SETTLE_S)
        memory = server.ask('GET', f'nodes/{node}/memory')['memory']
        before, least = least, (memory['total']['erlang'] - memory['binary']) / 1024
        if least > 0.99 * before:
            return least


def _seconds(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--queues', type=int, default=SIZES[0])
    parser.add_argument('--type', choices=(CLASSIC, QUORUM), default=CLASSIC)
    parser.add_argument('--statistics', action='store_true', help='let the broker collect them')
    arguments = parser.parse_args()
    made = _row(arguments.type, arguments.queues, arguments.statistics)
    print(json.dumps(made, indent=1))


if __name__ == '__main__':
    main()
