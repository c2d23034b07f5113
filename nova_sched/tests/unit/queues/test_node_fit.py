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
"""A node before the queues: what it can do after each report."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.hardware import pci
from nova_sched.queues.fit import Fit, with_devices
from nova_sched.queues.node.subscriptions import NONE
from nova_sched.queues.node_fit import NodeFit
from nova_sched.tests.builders import NOW, aggregate, report, request
from nova_sched.tests.unit.queues.catalogues import catalogue, flavor, rules

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


@pytest.mark.parametrize(
    'words, one, followed',
    [
        pytest.param({'disabled': True}, report(**NODE), [], id='switched off by an operator'),
        pytest.param(
            {},
            report(**NODE, traits=frozenset(['COMPUTE_STATUS_DISABLED'])),
            [],
            id='switched off by itself',
        ),
        pytest.param(
            {'aggregates': [aggregate(1, ['host-0'], instance_type='tiny')]},
            report(**NODE),
            ['tiny', 'medium', 'large'],
            id='an aggregate that no rule asks about',
        ),
    ],
)
def test_what_others_say_of_the_node_counts(words, one, followed):
    assert queues(view(**words), one) == followed


def test_zones_of_other_nodes_are_not_its_own():
    found = Fit(rules(), catalogue('tiny', specials=['zone:a', 'zone:b']))
    zones = [
        aggregate(1, ['host-0'], availability_zone='a'),
        aggregate(2, ['other'], availability_zone='b'),
    ]
    assert queues(view(found, aggregates=zones), report()) == ['tiny', 'tiny+zone:a']


def test_a_node_with_a_new_uuid_is_alone():
    node, other = view(), report(**NODE, vcpus_used=8)
    queues(node, report(**NODE))
    assert (
        queues(node, dataclasses.replace(other, node_uuid='8a2a1b1a-4ad3-4f9a-8cf9-31c1e9b3a9f5'))
        == []
    )


def test_views_of_one_fit_have_the_same_names():
    fit = Fit(rules(), SEED)
    assert view(fit).names is view(fit).names is fit.names


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
