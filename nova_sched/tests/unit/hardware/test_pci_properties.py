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
"""What holds for all pools and requests, checked on random ones against brute force."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nova_sched.hardware import pci
from nova_sched.tests.unit.hardware.builders import cell, host

SPECIAL = ['type-PF', 'vdpa']
PLAIN = ['type-VF', 'type-PCI']
HOST = host(cell(0, socket=0), cell(1, socket=0), cell(2, socket=1))


def tags(types):
    return st.fixed_dictionaries(
        {},
        optional={
            'dev_type': st.sampled_from(types),
            'physical_network': st.sampled_from(['a', 'B']),
            'rp_uuid': st.sampled_from(['rp1', 'rp2']),
            'x': st.sampled_from(['1', None]),
        },
    )


def pools(types=(*PLAIN, *SPECIAL)):
    one = st.builds(
        pci.PciPool,
        st.sampled_from(['8086', '10DE']),
        st.sampled_from(['1572', '20b0']),
        st.sampled_from([0, 1, 2, None]),
        tags(types),
        st.integers(0, 3),
    )
    key = 'vendor_id product_id numa_node'.split()
    return st.lists(
        one,
        max_size=4,
        unique_by=lambda p: (*(getattr(p, name) for name in key), *sorted(p.tags.items())),
    ).map(tuple)


specs = st.fixed_dictionaries(
    {},
    optional={
        'vendor_id': st.sampled_from(['8086', '10de']),
        'dev_type': st.sampled_from([*PLAIN, *SPECIAL]),
        'physical_network': st.sampled_from(['a', 'b']),
        'x': st.sampled_from(['1', None]),
    },
)
a_request = st.builds(
    pci.PciRequest,
    st.integers(1, 3),
    st.lists(specs, min_size=1, max_size=2).map(tuple),
    st.sampled_from(['required', 'legacy', 'preferred', 'socket']),
    st.sampled_from(['r1', 'r2']),
    alias_name=st.sampled_from([None, 'alias']),
)
requests = st.lists(a_request, max_size=3)
some_cells = st.none() | st.lists(st.integers(0, 2), max_size=2, unique=True)
mappings = st.dictionaries(
    st.sampled_from(['r1-0', 'r1-1', 'r2-0']),
    st.lists(st.sampled_from(['rp1', 'rp2']), min_size=1, max_size=1),
)


def met(some, several, cells, mapping):
    """As many of the requests, from the first on, as there are devices for."""
    while not pci.supports(some, several, cells, HOST, mapping):
        several = several[:-1]
    return several


def may_have(some, asked, cells):
    """The rules for one device, in the words of the request."""
    tagged = {**some.tags, 'vendor_id': some.vendor_id}
    matches = any(
        all(
            (tagged.get(name) or '').lower() == (value or '').lower()
            for name, value in one.items()
        )
        for one in asked.spec
    )
    beside = {0: {0, 1}, 1: {0, 1}, 2: {2}}
    near = {
        'required': set(cells or ()),
        'legacy': {*(cells or ()), None},
        'preferred': {0, 1, 2, None},
        'socket': set().union(*(beside[number] for number in cells or ())),
    }
    named = {one.get('dev_type') for one in asked.spec}
    return (
        matches
        and (not cells or some.numa_node in near[asked.numa_policy])
        and (some.dev_type not in SPECIAL or some.dev_type in named)
    )


@given(pools(PLAIN), a_request, some_cells)
def test_what_is_refused_is_not_there(some, asked, cells):
    """Every way to draw from the pools is tried."""
    ways = itertools.product(*(range(one.count + 1) for one in some))
    possible = any(
        sum(way) == asked.count
        and all(
            not drawn or may_have(one, asked, cells) for drawn, one in zip(way, some, strict=True)
        )
        for way in ways
    )
    assert pci.supports(some, [asked], cells, HOST) is possible


@given(pools(), requests, some_cells, mappings)
def test_what_is_taken_is_what_was_asked_for(some, several, cells, mapping):
    several = met(some, several, cells, mapping)
    left, taken = pci.take(some, several, cells, HOST, mapping)
    assert sum(one.pool.count for one in taken) == sum(asked.count for asked in several)
    assert all(one.count >= 0 for one in left)
    for one in taken:
        assert any(
            may_have(one.pool, asked, cells)
            for asked in several
            if asked.request_id == one.request_id
        )
        before, after = (
            next(p.count for p in these if p.is_like(one.pool)) for these in (some, left)
        )
        assert before - after == sum(
            other.pool.count for other in taken if other.pool.is_like(one.pool)
        )


@given(pools(), requests, some_cells, mappings)
def test_what_is_taken_can_be_given_back(some, several, cells, mapping):
    several = met(some, several, cells, mapping)
    assert pci.give_back(*pci.take(some, several, cells, HOST, mapping)) == some


@given(pools(), st.lists(requests, max_size=4))
def test_no_device_is_taken_twice(some, rounds):
    now, given_out = some, 0
    for several in rounds:
        if pci.supports(now, several):
            now, taken = pci.take(now, several)
            given_out += sum(one.pool.count for one in taken)
    assert sum(one.count for one in now) + given_out == sum(one.count for one in some)
    assert all(one.count >= 0 for one in now)


@given(pools(), requests)
def test_texts_hold_everything(some, several):
    free = tuple(one for one in some if one.count)
    assert pci.pools_from_json(pci.pools_to_json(some)) == free
