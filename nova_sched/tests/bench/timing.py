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
"""How a benchmark measures: many short runs of ours and of the floor by turns, and their
medians."""

import random
import statistics
import threading
import time


def by_turns(functions, budget_s=2.0, least=20, between=lambda: None):
    """Seconds of each call, by name: the functions run in turn, so that a busy moment hits all of
    them. ``between`` runs before each turn, and is not measured."""
    samples = {name: [] for name in functions}
    for function in functions.values():
        function()
    end = time.perf_counter() + budget_s
    while time.perf_counter() < end or min(map(len, samples.values())) < least:
        between()
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            samples[name].append(time.perf_counter() - start)
    return samples


def in_random_order(functions, budget_s=2.0, between=lambda: None):
    """Seconds of processor time of each call in this thread, by name.

    For differences that are smaller than what other programs on the machine cause, or what the
    call before leaves in caches.
    """
    samples, chance = {name: [] for name in functions}, random.Random(1)
    end = time.perf_counter() + budget_s
    while time.perf_counter() < end:
        between()
        for name in chance.sample(list(functions), len(functions)):
            start = time.thread_time()
            functions[name]()
            samples[name].append(time.thread_time() - start)
    return samples


def in_threads(work, count):
    """Run the work in that many threads to its end; it gets the number of its thread."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def row(what, samples, floor='', bare=None, digits=3):
    """A row of the table of the benchmarks, for seconds of ours and of the floor, if there is
    one; ``floor`` is its name."""
    ours = p50_ms(samples)
    figures = {
        'what': what,
        'p50': f'{ours:.{digits}f} ms',
        'p99': f'{p99_ms(samples):.{digits}f} ms',
        'a second': f'{1000 / ours:,.0f}',
    }
    if bare is not None:
        figures['floor'] = f'{floor} {p50_ms(bare):.{digits}f} ms'
        figures['ratio'] = f'{ours / p50_ms(bare):.3f}'
    return figures


def p50_ms(samples):
    return statistics.median(samples) * 1e3


def p99_ms(samples):
    return sorted(samples)[int(len(samples) * 0.99)] * 1e3
