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
"""Builds the texts of refusals: counts, lists, and the nearest miss of a resource."""

import math

import numpy as np

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU

UNITS = {VCPU: 'vCPU', PCPU: 'dedicated CPU', MEMORY_MB: 'MiB of memory', DISK_GB: 'GiB of disk'}
MAX_LISTED = 5
NEVER = 1e6  # more than any shortage of a host


def count(number, word):
    """Return `1 host`, `2 hosts`."""
    return f'{number} {word}' if number == 1 else f'{number} {word}s'


def listed(words, most=MAX_LISTED):
    """Return the items in order, shortened if there are many: `a, b and 7 more`."""
    words = sorted(words)
    rest = len(words) - most
    return ', '.join(words) if rest <= 0 else f'{", ".join(words[:most])} and {rest} more'


def causes(total, counted):
    """Return how many of ``total`` hosts have each cause: `2 are disabled, 1 is forced down`.

    ``counted`` has (number of hosts, cause) in order. A cause that all hosts share has no number.
    """
    texts = []
    for number, cause in counted:
        if not number:
            continue
        if number == total:
            texts.append(f'it is {cause}' if total == 1 else f'all are {cause}')
        else:
            texts.append(f'{number} {"is" if number == 1 else "are"} {cause}')
    return ', '.join(texts)


def amount(resource_class, number):
    """Return `16384 MiB of memory`, `2 vCPUs`, `1 CUSTOM_GPU`."""
    if resource_class in (VCPU, PCPU):
        return count(number, UNITS[resource_class])
    return f'{number} {UNITS.get(resource_class, resource_class)}'


def short(text, wanted, free, largest, of=''):
    """Return the requested amount (``text``; ``wanted`` as a number), and the amount of the
    nearest host.

    ``free`` is the free amount of each refused host, ``largest`` the most that it ever gives to
    one instance. ``of`` names a subset of the hosts, if not all are meant.
    """
    able = largest >= wanted
    if not able.any():
        return f'{text} asked, {_holder("largest", free, of)} {_figure(largest.max())} in all'
    return f'{text} asked, {_holder("best", free, of)} {_figure(free[able].max())} free'


def _holder(superlative, column, of):
    if of:
        return f'{of} has' if len(column) == 1 else f'the {superlative} of {of} has'
    return 'the host has' if len(column) == 1 else f'the {superlative} host has'


def _figure(value):
    return max(math.floor(value), 0)


def nearest(rows, *dimensions):
    """Return the row with the smallest shortage, relative to the request. Each dimension has
    (asked, free, largest).

    Rows that could never give that much to one instance rank behind those that are full now.
    """
    lacking = np.zeros(len(rows))
    for wanted, free, largest in dimensions:
        if wanted:
            share = (wanted - np.minimum(free, largest)) / wanted
            lacking = np.maximum(lacking, share + NEVER * (largest < wanted))
    return rows[int(lacking.argmin())]
