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
"""Which queues a node satisfies: just those for whose Request the scheduler would keep it."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.claims.reconcile import settle
from nova_sched.engine.decide import survivors
from nova_sched.extensions.queues.fit import Fit, NodeFit, with_devices
from nova_sched.extensions.queues.node.subscriptions import NONE
from nova_sched.filters import Filter
from nova_sched.filters.foreign import adopt
from nova_sched.hardware import pci
from nova_sched.state.cluster import Cluster
from nova_sched.state.facts import HostFacts
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import NOW, aggregate, cluster, put, report, request
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each_afresh, table
from nova_sched.tests.unit.extensions.queues.catalogues import (
    FLAVORS,
    GOLD,
    aggregates,
    catalogue,
    catalogues,
    flavor,
    nodes,
    rules,
)

OFTEN = settings(max_examples=cases(40))


class OddFilter:
    """A filter written for Nova that reads the message itself."""

    def host_passes(self, host_state, spec_obj):
        specs = spec_obj.flavor.extra_specs
        return (
            host_state.vcpus_total % 2 == 0 or spec_obj.flavor.vcpus == 2 or 'trait:HW_A' in specs
        )


class RowsFilter(Filter):
    """One that is asked about each row, and reads something else of each request."""

    def judge(self, hosts, request, rows):
        free = hosts.free_ram_mb[rows] >= 0
        return free if request.vcpus > 1 else free & (len(request.extra_specs) < 2)


def a_cluster(found, *reports):
    """The one-node cluster of a node as a strategy draws it, by one report after the other."""
    made = Cluster()
    put_aggregates(made, found)
    for one in reports:
        see(made, one)
    return made


def put_aggregates(made, found):
    """Make these the aggregates, and no others."""
    for number in range(4):
        made.set_aggregate(number, next((one for one in found if one.id == number), None))


def see(made, node):
    one, age, disabled = node
    settled = settle(one, {})
    made.put(one, (), settled.foreign, settled.foreign_instances, seen_s=NOW - age)
    made.set_service(one.host, disabled, None, False)
    made.hosts.now_s = NOW


def by_the_scheduler(chosen, made, wanted):
    """The same, asked of the scheduler's chain for each queue."""

    def keeps(queue):
        try:
            return bool(survivors(chosen, made.hosts, wanted.request(queue)).left)
        except errors.InvalidRequest:
            return False

    return [keeps(queue) for queue in wanted.queues]


def names(wanted, mask):
    return [str(queue) for queue, kept in zip(wanted.queues, mask, strict=True) if kept]


@each_afresh(
    'every, more',
    {
        'default rules': (False, ()),
        'all rules': (True, ()),
        'and plug-ins': (True, (adopt(OddFilter), RowsFilter())),
    },
)
@given(wanted=catalogues, found=aggregates(), first=nodes(), second=nodes(), groups=aggregates())
@OFTEN
def test_just_those_that_the_scheduler_would_keep_it_for(
    every, more, wanted, found, first, second, groups
):
    chosen = rules(every, more)
    fit, made = Fit(chosen, wanted), a_cluster(found, first)

    def check(judged, same):
        expected = by_the_scheduler(chosen, same, wanted)
        assert names(wanted, fit.judge(judged)) == names(wanted, expected)

    check(made, a_cluster(found, first))
    # The same node later, and in other aggregates: what was kept or learned must not count any
    # more.
    see(made, second)
    check(made, a_cluster(found, first, second))
    put_aggregates(made, groups)
    check(made, a_cluster(groups, first, second))
    # Another node before the same queues.
    check(a_cluster(groups, first), a_cluster(groups, first))


BOTH = [
    'tiny',
    'tiny+zone:a',
    'tiny+resource:CUSTOM_GOLD',
    'big',
    'big+zone:a',
    'big+resource:CUSTOM_GOLD',
]


@table(
    'node, kept',
    {
        'room for all, nothing special': ({}, ['tiny', 'big']),
        'no node gives more than it has': ({'vcpus': 3}, ['tiny']),
        'whatever its ratio': ({'vcpus': 3, 'vcpus_ratio': 4.0}, ['tiny']),
        'the last memory': ({'memory_mb_used': 65536 - 8}, ['tiny', 'big']),
        'one MiB too few': ({'memory_mb_used': 65536 - 7}, []),
        'switched off': ({'disabled': True}, []),
        'silent': ({'seen_s': NOW - 1000}, []),
        'in the zone': (
            {'aggregates': {'availability_zone': 'a'}},
            ['tiny', 'tiny+zone:a', 'big', 'big+zone:a'],
        ),
        'one unit': (
            {'gold': 1},
            ['tiny', 'tiny+resource:CUSTOM_GOLD', 'big', 'big+resource:CUSTOM_GOLD'],
        ),
        'one unit, little room': ({'gold': 1, 'vcpus': 3}, ['tiny', 'tiny+resource:CUSTOM_GOLD']),
        'the class, and nothing of it': ({'gold': 0}, ['tiny', 'big']),
    },
)
def test_what_a_node_can_do(node, kept):
    wanted = catalogue('tiny', flavor('big', 4), specials=['zone:a', 'resource:CUSTOM_GOLD'])
    gold, within = node.pop('gold', None), node.pop('aggregates', None)
    others = aggregate(1, ['other'], availability_zone='a')
    made = cluster(1, [aggregate(2, ['host-0'], **within) if within else others], **node)
    if gold is not None:
        one = dataclasses.replace(
            report(), inventories={**report(**node).inventories, GOLD: Inventory(gold)}
        )
        put(made, one)
    assert set(names(wanted, Fit(rules(), wanted).judge(made))) == set(kept) <= set(BOTH)


def test_devices_are_judged_though_no_enabled_filter_does():
    wanted, made = catalogue('tiny', specials=['pci:gpu']), cluster(1)
    assert names(wanted, Fit(rules(), wanted).judge(made)) == ['tiny', 'tiny+pci:gpu']
    strict = with_devices(rules())
    assert names(wanted, Fit(strict, wanted).judge(made)) == ['tiny']
    assert with_devices(strict) is strict


@table('every', {'default rules': False, 'all rules': True})
def test_rules_are_asked_about_few_of_many_queues(every):
    wanted = catalogue(
        *(flavor(f'f{number}', 1 + number % 4, 8 + number % 5) for number in range(40)),
        specials=[f'zone:{number}' for number in range(20)],
    )
    asked = []

    class Counting(Filter):
        host_facts = HostFacts.AMOUNTS
        request_facts = ('memory_mb',)

        def mask(self, hosts, request):
            asked.append(request.memory_mb)
            return hosts.free_ram_mb >= request.memory_mb

    fit, made = Fit(rules(every, (Counting(),)), wanted), cluster(1)
    fit.judge(made)
    asked.clear()
    assert {f'f{number}' for number in range(40)} <= set(names(wanted, fit.judge(made)))
    assert sorted(asked) == [8, 9, 10, 11, 12]


def test_nodes_of_one_fit_share_what_they_have_in_common():
    wanted = catalogue('tiny', specials=['trait:HW_A', 'zone:a'])
    fit, many = Fit(rules(), wanted), [cluster(1, traits=frozenset(['HW_A'])) for _ in range(3)]
    assert [names(wanted, fit.judge(one)) for one in many] == [
        ['tiny', 'tiny+trait:HW_A', 'tiny+zone:a']
    ] * 3
    kept = [one.hosts.cache.get(('queues', fit._serial), None) for one in many]
    assert kept[0] is kept[1] is kept[2]


@table('flavors', {'no flavors': (), 'none that has a queue': (FLAVORS[-1],)})
def test_a_catalogue_without_queues(flavors):
    fit = Fit(rules(), catalogue(*flavors, specials=['zone:a']), steps=10)
    assert fit.names == ()
    assert fit.priorities(cluster(1)).tolist() == []


def test_priorities_name_what_is_not_satisfied():
    wanted = catalogue('tiny', flavor('big', 17))
    found = Fit(rules(), wanted, steps=10).priorities(cluster(1))
    assert (found.dtype, found.tolist()) == (np.int16, [9, NONE])


@given(data=st.data())
@settings(max_examples=cases(30))
def test_a_fit_knows_no_order_of_queues(data):
    found = data.draw(catalogues)
    turned = catalogue(*reversed(found.flavors), specials=reversed(found.specials))
    node = data.draw(nodes())
    ours, theirs = (
        set(names(one, Fit(rules(True), one).judge(a_cluster([], node))))
        for one in (found, turned)
    )
    assert ours == theirs


# A node whose reports come one after another.


GIB = 1024
# The flavors and the node that queues were first thought out for.
SEED = catalogue(
    flavor('tiny', 1, GIB, 5),
    flavor('medium', 2, 4 * GIB, 100),
    flavor('large', 8, 16 * GIB, 200),
    specials=['pci:gpu'],
)
NODE = {'vcpus': 8, 'memory_mb': 16 * GIB, 'disk_gb': 1000}


def one_gpu(free):
    return pci.pools_to_json([pci.PciPool('10de', '20b0', count=free)])


def view(fit=None, **words):
    return NodeFit(fit or Fit(with_devices(rules()), SEED), clock=lambda: NOW, **words)


def queues(found, one):
    """The names of the queues that a node follows after a report."""
    return [
        name.removeprefix('flavor.')
        for name, step in zip(found.names, found.judge(one), strict=True)
        if step != NONE
    ]


def test_what_a_node_follows_as_servers_come_and_go():
    node, free = view(), ['tiny', 'medium', 'large']
    with_gpu = ['tiny', 'tiny+pci:gpu', 'medium', 'medium+pci:gpu', 'large', 'large+pci:gpu']
    steps = [
        ('nothing is there', {}, 1, with_gpu),
        (
            'a tiny one with the device',
            {'vcpus_used': 1, 'memory_mb_used': GIB},
            0,
            ['tiny', 'medium'],
        ),
        ('a medium one', {'vcpus_used': 3, 'memory_mb_used': 5 * GIB}, 0, ['tiny', 'medium']),
        ('the first one has gone', {'vcpus_used': 2, 'memory_mb_used': 4 * GIB}, 1, with_gpu[:4]),
        (
            'all but one GiB is taken',
            {'vcpus_used': 7, 'memory_mb_used': 15 * GIB},
            1,
            with_gpu[:2],
        ),
        ('full', {'vcpus_used': 8, 'memory_mb_used': 16 * GIB}, 1, []),
        ('only the device is in use', {}, 0, free),
    ]
    for what, used, gpus, followed in steps:
        assert (what, queues(node, report(**NODE, **used, pci_pools=one_gpu(gpus)))) == (
            what,
            followed,
        )


@table(
    'words, one, followed',
    {
        'switched off by an operator': ({'disabled': True}, report(**NODE), []),
        'switched off by itself': (
            {},
            report(**NODE, traits=frozenset(['COMPUTE_STATUS_DISABLED'])),
            [],
        ),
        'an aggregate that no rule asks about': (
            {'aggregates': [aggregate(1, ['host-0'], instance_type='tiny')]},
            report(**NODE),
            ['tiny', 'medium', 'large'],
        ),
    },
)
def test_what_others_say_of_the_node_counts(words, one, followed):
    assert queues(view(**words), one) == followed


def test_a_node_with_a_new_uuid_is_alone():
    node, other = view(), report(**NODE, vcpus_used=8)
    queues(node, report(**NODE))
    assert (
        queues(node, dataclasses.replace(other, node_uuid='8a2a1b1a-4ad3-4f9a-8cf9-31c1e9b3a9f5'))
        == []
    )


def test_steps_are_the_priorities():
    found = view(Fit(rules(), SEED, steps=4))
    spare = found.judge(report(**NODE))
    assert set(spare.tolist()) == {3}
    assert set(
        found.judge(
            report(**NODE, vcpus_used=6, memory_mb_used=12 * GIB, disk_gb_used=800)
        ).tolist()
    ) == {1, NONE}
    assert set(spare.tolist()) == {3}


def test_a_node_may_be_asked_about_the_very_request():
    node = view()
    kept = [node.takes(report(**NODE, vcpus_used=used), request(vcpus=2)) for used in (6, 7)]
    assert kept == [True, False]
    with pytest.raises(errors.InvalidRequest):
        node.takes(report(**NODE), request(extra_specs={'capabilities:vcpus_total': '>= x'}))
