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
"""What holds for every host and every guest, checked on random ones against brute force."""

import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

from nova_sched.hardware import numa
from nova_sched.tests.unit.hardware.builders import cell, guest, host


@st.composite
def host_cells(draw, number, roomy):
    """Up to nine CPUs on cores of up to three threads, some of them set apart, some in use."""
    memory = st.integers(6, 12) if roomy else st.integers(0, 6)
    sizes = draw(st.lists(st.integers(1, 3), min_size=3 if roomy else 1, max_size=3))
    cpus = iter(range(10 * number, 10 * number + 10))
    cores = [list(itertools.islice(cpus, size)) for size in sizes]
    every = list(itertools.chain.from_iterable(cores))
    apart = draw(st.none() | st.sets(st.sampled_from(every)))
    pcpuset = every if apart is None else sorted(apart)
    pages = draw(
        st.lists(
            st.tuples(st.sampled_from([512, 1024, 2048]), memory, st.integers(0, 2)), max_size=2
        )
    )
    return cell(
        number,
        every if apart is None else sorted(set(every) - apart),
        pcpuset,
        cores,
        pinned=[cpu for cpu in pcpuset if draw(st.integers(0, 9 if roomy else 3)) == 0],
        memory_mb=draw(memory),
        memory_usage_mb=draw(st.integers(0, 3)),
        cpu_usage=draw(st.integers(0, 3)),
        pages=list({size: (size, *counts) for size, *counts in pages}.values()),
        physnets=draw(st.sampled_from([frozenset(), frozenset('a')])),
    )


@st.composite
def hosts(draw, roomy=False):
    cells = draw(st.integers(2 if roomy else 1, 3))
    return host(*(draw(host_cells(number, roomy)) for number in range(cells)))


@st.composite
def guests(draw, pages=(None, 512, 1024, -1, -2, -3), small=False):
    policy = draw(st.sampled_from(['shared', 'dedicated', 'mixed']))
    shared, pinned = policy != 'dedicated', policy != 'shared'
    same = {
        'cpu_policy': policy,
        'pagesize_kb': draw(st.sampled_from(pages)),
        'thread_policy': draw(st.sampled_from(['prefer', 'isolate', 'require']))
        if pinned
        else 'prefer',
    }
    cells = [
        numa.GuestCell(
            0,
            frozenset(range(draw(st.integers(0, 3)) if shared else 0)),
            frozenset(range(10, 10 + (draw(st.integers(1, 2 if small else 3)) if pinned else 0))),
            draw(st.integers(1, 3)),
            **same,
        )
        for _ in range(draw(st.integers(1, 2 if small else 3)))
    ]
    return guest(*cells, emulator=draw(st.sampled_from([None, 'share', 'isolate'])))


some_limits = st.none() | st.builds(
    numa.NumaLimits,
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([1.0, 2.0]),
    st.just(frozenset('a')),
)
everything = given(hosts(), guests(), some_limits)
# Most of these fit.
fitting = given(hosts(roomy=True), guests(pages=[None, None, None, -1, -3], small=True), st.none())


def has_memory(one, asked):
    """The rule of memory and pages, from the side of the answer: some size will do."""
    pages = sorted(one.pages, key=lambda some: some.size_kb)
    if asked.pagesize_kb is None:
        has_kb = one.memory_mb * 1024 - asked.is_pinned * one.memory_usage_mb * 1024
        if pages:
            has_kb = (pages[0].free if asked.is_pinned else pages[0].total) * pages[0].size_kb
        return asked.memory_mb * 1024 <= has_kb
    kinds = {-1: pages[:1], -2: pages[1:], -3: pages}
    fitting = kinds.get(
        asked.pagesize_kb, [some for some in pages if some.size_kb == asked.pagesize_kb]
    )
    memory_kb = asked.memory_mb * 1024
    return any(
        memory_kb % some.size_kb == 0 and memory_kb <= some.free * some.size_kb for some in fitting
    )


def may_pin(one, cpus, emulator, policy):
    """The rule of threads, for one choice of CPUs."""
    core_of = {cpu: core for core in one.cores for cpu in core}
    full = max(map(len, one.cores))
    if policy == 'isolate':
        alone = all(core_of[cpu] <= one.free_pcpus for cpu in {*cpus, *emulator})
        apart = len({core_of[cpu] for cpu in {*cpus, *emulator}}) == len(cpus) + len(emulator)
        known = full == 1 or one.cpuset == one.pcpuset
        return alone and apart and known and all(len(core_of[cpu]) == full for cpu in cpus)
    if policy == 'require':
        free = {cpu: len(core_of[cpu] & one.free_pcpus) for cpu in cpus}
        each = max(sum(core_of[cpu] == core_of[other] for other in cpus) for cpu in cpus)
        return min(free.values()) >= max(each, 2)
    return True


def has_cpus(one, asked, emulator, limits):
    """Some choice of CPUs keeps all rules: every one is tried."""
    if asked.cpu_policy != 'dedicated':
        if len(asked.cpuset) > len(one.cpuset):
            return False
        if limits and one.cpu_usage + len(asked.cpuset) > len(one.cpuset) * limits.cpu_ratio:
            return False
        if limits and one.memory_usage_mb + asked.memory_mb > one.memory_mb * limits.ram_ratio:
            return False
    if asked.cpu_policy == 'shared':
        return True
    return any(
        may_pin(one, cpus, spare, asked.thread_policy)
        for cpus in itertools.combinations(one.free_pcpus, len(asked.pcpuset))
        for spare in itertools.combinations(one.free_pcpus - set(cpus), emulator)
    )


def brute_force(on, wanted, limits):
    """Whether some order of the host's cells takes the guest's."""
    homes = {one.id for one in on.cells if limits and one.physnets & limits.physnets}
    return any(
        all(
            has_memory(one, asked) and has_cpus(one, asked, wanted.reserved_cpus(position), limits)
            for position, (one, asked) in enumerate(zip(chosen, wanted.cells, strict=True))
        )
        and (not homes or not homes.isdisjoint(one.id for one in chosen))
        for chosen in itertools.permutations(on.cells, len(wanted.cells))
    )


@everything
def test_a_thorough_fit_finds_what_brute_force_finds(on, wanted, limits):
    assert (numa.fit(on, wanted, limits, thorough=True) is not None) is brute_force(
        on, wanted, limits
    )


@given(hosts(), guests(pages=[None, 512, 1024]), st.booleans())
def test_on_two_cells_nothing_is_overlooked(on, wanted, packing):
    """Not without allocation ratios, and if pages are of one size."""
    on = host(*on.cells[:2])
    assert bool(numa.fit(on, wanted, packing=packing)) is brute_force(on, wanted, None)


@fitting
def test_a_fit_keeps_within_the_host(on, wanted, limits):
    found = numa.fit(on, wanted, limits)
    assume(found)
    assert len(set(found.host_cells)) == len(wanted.cells)
    for position, placed in enumerate(found.cells):
        one, asked = on.by_id[placed.host_cell], wanted.cells[position]
        pinned = list(placed.pinning.values())
        assert list(placed.pinning) == (sorted(asked.pcpuset) if asked.is_pinned else [])
        assert len(placed.reserved) == wanted.reserved_cpus(position)
        assert len(placed.host_cpus) == len(pinned) + len(placed.reserved)
        assert placed.host_cpus <= one.free_pcpus
        assert not pinned or may_pin(one, pinned, placed.reserved, asked.thread_policy)
        if placed.pagesize_kb is not None:
            assert (
                one.pages_by_size[placed.pagesize_kb].free * placed.pagesize_kb
                >= asked.memory_mb * 1024
            )
            assert asked.pagesize_kb < 0 or asked.pagesize_kb == placed.pagesize_kb


@fitting
def test_what_is_taken_can_be_given_back(on, wanted, limits):
    found = numa.fit(on, wanted, limits)
    assume(found)
    assert numa.give_back(numa.take(on, found), found) == on


@given(hosts(roomy=True), st.lists(guests(pages=[None], small=True), min_size=2, max_size=4))
def test_no_two_guests_share_a_dedicated_cpu(on, several):
    """Nor does a guest that is isolated share a core."""
    now, owners = on, {}
    for number, wanted in enumerate(several):
        if found := numa.fit(now, wanted):
            full = numa.take(now, found)
            for before, after, placed in (
                (now.by_id[placed.host_cell], full.by_id[placed.host_cell], placed)
                for placed in found.cells
            ):
                own = after.pinned_cpus - before.pinned_cpus
                assert placed.host_cpus <= own
                assert own.isdisjoint(owners)
                owners |= dict.fromkeys(own, number)
                if placed.cell.thread_policy == 'isolate':
                    beside = [core for core in after.siblings if core & placed.host_cpus]
                    assert frozenset().union(*beside) <= own
            now = full


@fitting
def test_the_summary_never_rules_out_what_fits(on, wanted, limits):
    assume(numa.fit(on, wanted, limits))
    assert numa.NumaSummary.of(on).may_take(wanted)


@everything
def test_there_is_a_reason_for_every_refusal(on, wanted, limits):
    assert bool(numa.why_not(on, wanted, limits)) is not bool(numa.fit(on, wanted, limits))


@everything
def test_texts_hold_everything(on, wanted, limits):
    assert numa.HostTopology.from_json(on.to_json()) == on
    if found := numa.fit(on, wanted, limits):
        assert numa.take(on, numa.Fitted.from_json(found.to_json())) == numa.take(on, found)
