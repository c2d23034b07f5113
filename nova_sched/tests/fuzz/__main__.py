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
"""The command: sends so many spoiled messages, by several processes, and prints one line at the
end."""

import argparse
import concurrent.futures
import multiprocessing
import sys
import time

from nova_sched.tests import conftest  # noqa: F401, it chooses the backend before anything is imported
from nova_sched.tests.fuzz import run


def main():
    parser = argparse.ArgumentParser(prog='python -m nova_sched.tests.fuzz', description=__doc__)
    parser.add_argument('--messages', type=int, default=10_000, help='in all')
    parser.add_argument('--seed', type=int, default=1, help='the same messages for the same seed')
    parser.add_argument('--processes', type=int, default=2)
    given = parser.parse_args()
    begin_s = time.monotonic()
    shares = [given.messages // given.processes] * given.processes
    shares[0] += given.messages - sum(shares)
    seeds = [given.seed * 1000 + number for number in range(given.processes)]
    spawn = multiprocessing.get_context('spawn')
    with concurrent.futures.ProcessPoolExecutor(given.processes, spawn) as pool:
        found = list(pool.map(run.watched, shares, seeds))
    whole = run.Tally()
    for one in found:
        whole.add(one)
    for fault, (case, count) in sorted(whole.faults.items(), key=lambda item: -item[1][1]):
        print(f'{count:6d} x {fault}\n         first: {case}')
    refused = ', '.join(f'{name} {count}' for name, count in whole.refused.most_common())
    growth = ', '.join(f'{one.growth_mb:+.0f} MiB' for one in found)
    print(
        f'{whole.messages} messages in {time.monotonic() - begin_s:.0f} s: {whole.accepted} '
        f'accepted, {sum(whole.refused.values())} refused ({refused}), {whole.escapes} escapes, '
        f'slowest {whole.slowest_s:.2f} s ({whole.slowest}), memory growth {growth}'
    )
    return 1 if whole.escapes or any(one.growth_mb > run.MOST_GROWTH_MB for one in found) else 0


if __name__ == '__main__':
    sys.exit(main())
