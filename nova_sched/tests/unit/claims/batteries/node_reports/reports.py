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
"""What a report says of a node and its instances."""

import dataclasses

from nova_sched.claim import CONFIRMED, PCPU, PENDING, VCPU, Claim
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import NOW, claim, report, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    B,
    C,
    at,
    confirmed,
    facts,
    generation,
    judged_by,
    kept,
    node,
    place,
    ready,
    remove,
    resize,
    seen,
)


class Reports:
    def test_the_first_report_makes_the_node_known(self, store, another):
        (found,) = ready(store, vcpus_used=3)
        assert (found.report, found.claims, found.foreign) == (report(vcpus_used=3), (), {VCPU: 3})
        assert found.seen_s == NOW
        assert another().changes({}).nodes == (found,)

    def test_every_fact_of_a_report_is_kept(self, store, another):
        whole = report(
            instances=frozenset([A, B]),
            traits=frozenset(['HW_CPU_X86_VMX', 'CUSTOM_É']),
            disk_slack_gb=-3,
            num_instances=2,
            io_workload=1,
            failed_builds=4,
            hypervisor_type='QEMU',
            hypervisor_version=8002001,
            host_ip='192.0.2.1',
            cpu_info='{"vendor": "Intel"}',
            supported_instances=(('x86_64', 'kvm', 'hvm'), ('i686', 'kvm', 'hvm')),
            stats={'boost': 'yes'},
            numa_topology='{}',
            metrics='[]',
            pci_pools='x' * 70_000,
            providers='{}',
            running_vms=2,
            current_workload=0,
        )
        custom = {VCPU: Inventory(8, 1, 1.5, 2, 4, 2), 'CUSTOM_GOLD': Inventory(3)}
        whole = dataclasses.replace(whole, inventories=custom, used={VCPU: 2})
        store.report([whole], NOW)
        assert facts(another()).report == whole

    def test_a_repeated_report_changes_nothing(self, store):
        ready(store, vcpus_used=3)
        place(store, claim(A, node()))
        store.release([(A, node())])
        before = facts(store)
        for seconds in (10, 20):
            (after,) = ready(store, now_s=NOW + seconds, vcpus_used=3)
            assert after == facts(store) == dataclasses.replace(before, seen_s=NOW + seconds)

    @each_afresh(
        'words',
        {
            'inventory': {'vcpus': 8},
            'use': {'vcpus_used': 1},
            'fact': {'hypervisor_type': 'ironic'},
            'stranger': {'instances': frozenset([A])},
        },
    )
    def test_a_report_with_news_raises_the_generation(self, store, words):
        before = ready(store, instances=frozenset())[0].generation
        assert ready(store, **{'instances': frozenset(), **words})[0].generation == before + 1

    def test_a_list_confirms_and_releases(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node(), expires_s=NOW + 1))
        place(store, confirmed(B))
        place(store, claim(C, node()))
        before = generation(store)
        (found,) = ready(store, instances=frozenset([A]))
        assert {one.key: (one.state, one.expires_s) for one in found.claims} == {
            (A, node()): (CONFIRMED, None),
            (C, node()): (PENDING, None),
        }
        assert [one.key for one in found.ended] == [(B, node())]
        assert ready(store, instances=frozenset([A]))[0].ended == ()
        assert found.generation == before + 1
        assert sorted(found.claims, key=lambda one: one.uuid) == sorted(
            store.claims(), key=lambda one: one.uuid
        )

    def test_a_list_without_a_claim_does_not_take_it_away(self, store):
        ready(store)
        place(store, claim(A, node()))
        for _ in range(3):
            ready(store, instances=frozenset())
        assert kept(store) == {(A, node()): PENDING}

    def test_a_report_without_a_list_settles_nothing(self, store):
        ready(store)
        place(store, claim(A, node(), expires_s=NOW + 1))
        place(store, confirmed(B))
        ready(store, num_instances=0)
        assert kept(store) == {(A, node()): PENDING, (B, node()): CONFIRMED}
        assert store.claims(A)[0].expires_s == NOW + 1

    def test_a_list_speaks_for_its_own_node_only(self, store):
        ready(store, HOST, OTHER)
        place(store, confirmed(A))
        place(store, claim(A, node(OTHER)))
        ready(store, OTHER, instances=frozenset([A]))
        assert kept(store) == {(A, node()): CONFIRMED, (A, node(OTHER)): CONFIRMED}

    @each_afresh(
        'words, claims, foreign',
        {
            'nobody claimed it': ({'vcpus_used': 3}, [], {VCPU: 3}),
            'the reserve is not foreign': ({'vcpus_used': 3, 'vcpus_reserved': 2}, [], {VCPU: 1}),
            'less than the reserve': ({'vcpus_used': 1, 'vcpus_reserved': 2}, [], {}),
            'confirmed explains': (
                {'vcpus_used': 5},
                [confirmed(A, vcpus=3, memory_mb=0)],
                {VCPU: 2},
            ),
            'waiting does not': (
                {'vcpus_used': 5},
                [claim(A, node(), vcpus=3, memory_mb=0)],
                {VCPU: 5},
            ),
            'unless it is listed': (
                {'vcpus_used': 5, 'instances': frozenset([A])},
                [claim(A, node(), vcpus=3, memory_mb=0)],
                {VCPU: 2},
            ),
            'released explains nothing': (
                {'vcpus_used': 5, 'instances': frozenset()},
                [confirmed(A, vcpus=3, memory_mb=0)],
                {VCPU: 5},
            ),
            'never negative': ({'vcpus_used': 1}, [confirmed(A, vcpus=3, memory_mb=0)], {}),
            'pinned among the vCPUs': (
                {'vcpus_used': 5},
                [Claim(A, node(), {PCPU: 3}, CONFIRMED)],
                {VCPU: 2},
            ),
            'pinned apart': (
                {
                    'inventories': {VCPU: Inventory(8), PCPU: Inventory(8)},
                    'used': {VCPU: 5, PCPU: 4},
                },
                [Claim(A, node(), {PCPU: 3}, CONFIRMED)],
                {VCPU: 5, PCPU: 1},
            ),
        },
    )
    def test_foreign_use(self, store, words, claims, foreign):
        wide = {PCPU: Inventory(16)}
        ready(store, inventories={**report().inventories, **wide})
        for one in claims:
            assert place(store, one).won
        for _ in range(2):  # the first one may be older than the claims
            found = ready(store, **{'vcpus': 16, **words})[0]
        assert found.foreign == facts(store).foreign == foreign

    @each_afresh(
        'words, foreign',
        {
            'more than confirmed': ({'num_instances': 3}, 2),
            'fewer than confirmed': ({'num_instances': 0}, 0),
            'listed and not claimed': ({'instances': frozenset([A, B, C]), 'num_instances': 9}, 1),
        },
    )
    def test_foreign_instances(self, store, words, foreign):
        ready(store)
        place(store, confirmed(A))
        place(store, claim(B, node()))
        for _ in range(2):
            found = ready(store, **words)[0]
        assert found.foreign_instances == facts(store).foreign_instances == foreign

    def test_unclaimed_rows(self, store, another):
        """They are kept by consumer, with what is known of each."""
        held = {A: {VCPU: 3}, B: {VCPU: 2}}
        ready(store, vcpus_used=6, instances=frozenset(held), held=held)
        place(store, claim(A, node(), vcpus=2, memory_mb=0))
        for known in (facts(store), facts(another())):
            assert known.unclaimed == {**held, '': {VCPU: 1}}
        assert (facts(store).foreign, facts(store).foreign_instances) == ({VCPU: 6}, 2)
        (found,) = ready(store, vcpus_used=6, instances=frozenset(held), held=held)
        assert found.unclaimed == facts(another()).unclaimed == {B: {VCPU: 2}, '': {VCPU: 2}}
        assert judged_by(store)[VCPU] == 6
        ready(store, vcpus_used=6, instances=frozenset(held))
        assert facts(another()).unclaimed == {B: {}, '': {VCPU: 4}}

    @each_afresh(
        'words',
        {'without a list': {'num_instances': 1}, 'with a list': {'instances': frozenset([B])}},
    )
    def test_a_report_that_is_older_than_a_confirmation(self, store, words):
        """Its totals do not have the server, and the instance without a claim is still there."""
        ready(store, now_s=NOW - 10, vcpus=10, vcpus_used=4, **words)
        known = seen(store)
        at(store, NOW)
        place(store, claim(A, node(), vcpus=4))
        store.finish(A, [node()])
        ready(store, now_s=NOW + 10, vcpus=10, vcpus_used=4, order=known, **words)
        assert judged_by(store)[VCPU] == 8
        assert not place(store, claim(C, node(), vcpus=6)).won
        words = {'instances': frozenset([A, B])} if 'instances' in words else {'num_instances': 2}
        ready(store, now_s=NOW + 20, vcpus=10, vcpus_used=8, **words)
        assert judged_by(store)[VCPU] == 8

    def test_a_report_that_is_older_than_a_resized_guest(self, store):
        """4 of 10 vCPUs are unclaimed, and a server is resized from 2 to 4."""
        both = frozenset([A, B])
        ready(store, now_s=NOW - 20, vcpus=10, vcpus_used=4, instances=frozenset([B]))
        at(store, NOW - 10)
        place(store, claim(A, node(), vcpus=2))
        ready(store, now_s=NOW - 5, vcpus=10, vcpus_used=6, instances=both)
        at(store, NOW)
        resize(store, vcpus=4)
        for seconds, used in [(5, 6), (10, 6), (15, 8)]:
            ready(store, now_s=NOW + seconds, vcpus=10, vcpus_used=used, instances=both)
            assert judged_by(store)[VCPU] == 8
        at(store, NOW + 20)
        store.finish(A, [node()])
        ready(store, now_s=NOW + 25, vcpus=10, vcpus_used=8, instances=both)
        assert judged_by(store)[VCPU] == 8
        assert place(store, claim(C, node(), vcpus=2)).won

    def test_a_surprise_is_shown_and_nothing_more_fits_until_it_is_over(self, store):
        ready(store, vcpus=4)
        place(store, claim(A, node(), vcpus=3))
        ready(store, vcpus=4, vcpus_used=3)
        assert judged_by(store)[VCPU] == 6
        assert not place(store, claim(B, node())).won
        ready(store, vcpus=4)
        assert place(store, claim(B, node())).won

    def test_several_reports_at_once_and_the_last_of_a_node_counts(self, store):
        found = store.report([report(OTHER), report(vcpus=2), report(vcpus=3)], NOW)
        assert [one.report.host for one in found] == [OTHER, HOST, HOST]
        assert found[1] == found[2] == facts(store)
        assert facts(store).report == report(vcpus=3)
        assert store.report([], NOW) == []

    def test_a_node_that_was_rebuilt_under_its_old_name(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()), claim(B, node(OTHER)))
        new = report(HOST, node_uuid=uuid_of('new node'))
        (found,) = store.report([new], NOW)
        assert found.claims == ()
        changes = store.changes({node(): 1})
        assert {one.report.node_uuid for one in changes.nodes} == {new.node_uuid, node(OTHER)}
        assert changes.gone == (node(),)
        assert kept(store) == {(B, node(OTHER)): PENDING}

    def test_a_known_node_that_takes_the_name_of_another(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()), claim(B, node(OTHER)))
        (found,) = store.report([report(OTHER, node_uuid=node())], NOW)
        assert [one.consumer_uuid for one in found.claims] == [A]
        assert [one.report.node_uuid for one in store.changes({}).nodes] == [node()]
        assert kept(store) == {(A, node()): PENDING}
        ready(store, HOST, vcpus=1, node_uuid=uuid_of('its name is free again'))

    def test_two_nodes_of_one_name_at_once(self, store):
        """The later one is the one that is there now."""
        one, two = (report(HOST, node_uuid=uuid_of(name)) for name in ('one', 'two'))
        for first, second in ((one, two), (two, one)):
            found = store.report([report(OTHER), first, second], NOW)
            assert [facts.report for facts in found[1:]] == [first, second]
            assert set(store.heads()) == {node(OTHER), second.node_uuid}

    def test_a_node_that_comes_back_never_has_a_generation_that_it_had(self, store):
        seen = set()
        for _ in range(3):
            found = [ready(store)[0].generation]
            place(store, claim(A, node()))
            found.append(generation(store))
            assert seen.isdisjoint(found)
            seen.update(found)
            remove(store)
        store.report([report(node_uuid=uuid_of('new'))], NOW)
        assert ready(store)[0].generation not in seen

    def test_names_differ_in_case(self, store):
        ready(store, 'Host', 'host', 'hosT ')
        assert sorted(one.report.host for one in store.changes({}).nodes) == [
            'Host',
            'hosT ',
            'host',
        ]
