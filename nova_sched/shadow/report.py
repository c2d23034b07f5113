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
"""Sums up the comparisons of some time."""

import collections

import numpy as np

from nova_sched.shadow import comparison

EXAMPLES = 3  # request ids that stand for a rule


def summed(lines):
    """The report on lines of the journal, as plain values.

    ``calls``, ``servers``, and how many calls came to each outcome; ``p50_ms``, ``p99_ms`` and
    ``max_ms`` of the shadow's decisions, None without any; ``partial``: calls while a part of the
    cloud could not be read; ``rules``: of each filter or weigher that made a difference the
    ``kind``, the ``rule``, the number of ``servers`` and some ``requests``; ``missed``: counts of
    what was not compared; ``hosts_left_out``: why hosts get no servers, by the last line about it.
    """
    outcomes, missed = collections.Counter(), collections.Counter()
    rules, took_ms, servers, partial = {}, [], 0, 0
    hosts_left_out, first, last = {}, None, None
    for line in lines:
        first, last = first or line['time'], line['time']
        if 'hosts_left_out' in line:
            hosts_left_out = line['hosts_left_out']
            missed.update(line['missed'])
            continue
        outcomes[line['outcome']] += 1
        took_ms.append(line['took_ms'])
        servers += len(line['servers'])
        partial += 'unreadable' in line
        for server in line['servers']:
            for kind in ('filter', 'weigher'):
                if kind in server:
                    requests = rules.setdefault((kind, server[kind]), [])
                    requests.append(line['request_id'])
    return {
        'first': first,
        'last': last,
        'calls': len(took_ms),
        'servers': servers,
        **{name: outcomes[name] for name in comparison.OUTCOMES},
        'partial': partial,
        **_times(took_ms),
        'rules': [
            {
                'kind': kind,
                'rule': rule,
                'servers': len(requests),
                'requests': list(dict.fromkeys(requests))[:EXAMPLES],
            }
            for (kind, rule), requests in sorted(
                rules.items(), key=lambda one: (-len(one[1]), one[0])
            )
        ],
        'missed': dict(missed),
        'hosts_left_out': hosts_left_out,
    }


def _times(took_ms):
    if not took_ms:
        return dict.fromkeys(('p50_ms', 'p99_ms', 'max_ms'))
    p50, p99, most = np.percentile(took_ms, [50, 99, 100]).round(3).tolist()
    return {'p50_ms': p50, 'p99_ms': p99, 'max_ms': most}
