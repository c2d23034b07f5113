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
"""A caller's word on where a server goes: zone, hosts to ignore, hosts to force, a requested
destination."""

import pytest
from nova import exception

from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.cloud import CELL, OTHER_CELL

# No node has such a CPU, so that no host passes ComputeCapabilitiesFilter.
IMPOSSIBLE = {'extra_specs': {'capabilities:cpu_info:vendor': 'Acme'}}


@pytest.fixture
def zones(cloud, scheduler, context, zone_of, eventually):
    """Nodes of the zones north, south, and of none."""
    north, south, neither = cloud.add(3)
    for zone, node in (('north', north), ('south', south)):
        scheduler.update_aggregates(context, [cloud.aggregate(node, availability_zone=zone)])
        eventually(zone, lambda node=node: zone_of(node))
    return {'north': north.host, 'south': south.host, 'nova': neither.host}


@pytest.mark.parametrize('zone', ['north', 'south'])
def test_zone(zones, boot, zone):
    for _ in range(2):
        ((selection,),) = boot(zone=zone)
        assert (selection.service_host, selection.availability_zone) == (zones[zone], zone)


@pytest.mark.parametrize('zone', [None, 'nova', 'no-such-zone'])
def test_a_zone_of_no_aggregate_restricts_nothing(zones, boot, zone):
    found = [boot(zone=zone)[0][0] for _ in range(3)]
    assert {one.availability_zone: one.service_host for one in found} == zones


def test_a_full_zone_refuses(zones, boot):
    with pytest.raises(exception.NoValidHost):
        boot(9, zone='north')


@pytest.mark.parametrize(
    'spelling',
    [
        pytest.param(str, id='as it is'),
        pytest.param(str.upper, id='in capitals'),
    ],
)
def test_ignore_hosts(cloud, hosts, spelling):
    ignored, *others = cloud.add(3)
    found = [hosts(ignore_hosts=[spelling(ignored.host)])[0] for _ in range(4)]
    assert sorted(found) == sorted(2 * [node.host for node in others])


def test_every_host_is_ignored(cloud, boot):
    nodes = cloud.add(2)
    with pytest.raises(exception.NoValidHost):
        boot(ignore_hosts=[node.host for node in nodes])


def test_force_hosts(cloud, hosts):
    *_, forced = cloud.add(3)
    assert [hosts(force_hosts=[forced.host])[0] for _ in range(3)] == 3 * [forced.host]


def test_force_nodes(cloud, hosts, boot):
    """One host with two nodes, as one that manages bare metal has."""
    first = cloud.add()
    second = cloud.add(host=first.host)
    for node in (first, second, first):
        ((selection,),) = boot(force_nodes=[node.hypervisor_hostname])
        assert (selection.service_host, selection.nodename) == (
            first.host,
            node.hypervisor_hostname,
        )
    with pytest.raises(exception.NoValidHost):
        boot(force_nodes=[second.hypervisor_hostname.upper()])


def test_forced_means_that_no_filter_is_asked(cloud, boot, hosts):
    node = cloud.add()
    with pytest.raises(exception.NoValidHost):
        boot(flavor=IMPOSSIBLE)
    assert hosts(flavor=IMPOSSIBLE, force_hosts=[node.host]) == [node.host]


def test_forced_does_not_mean_that_there_is_room(cloud, boot):
    node = cloud.add(vcpus=1)
    boot(force_hosts=[node.host])
    with pytest.raises(exception.NoValidHost):
        boot(force_hosts=[node.host])


@pytest.mark.parametrize('names', [['host'], ['host', 'node']], ids=' and '.join)
def test_requested_destination(cloud, hosts, names):
    *_, wanted = cloud.add(3)
    words = {'host': wanted.host, 'node': wanted.hypervisor_hostname}
    there = specs.destination(**{name: words[name] for name in names})
    assert [hosts(requested_destination=there)[0] for _ in range(3)] == 3 * [wanted.host]


def test_a_requested_destination_by_node_alone(cloud, boot):
    first = cloud.add()
    second = cloud.add(host=first.host)
    ((selection,),) = boot(
        requested_destination=specs.destination(node=second.hypervisor_hostname)
    )
    assert selection.compute_node_uuid == second.uuid


@pytest.mark.parametrize(
    'words',
    [
        pytest.param({'host': 'no-such-host'}, id='unknown host'),
        pytest.param({'host': 'no-such-host', 'node': 'no-such-node'}, id='unknown host and node'),
    ],
)
def test_a_requested_destination_that_is_not_there(cloud, boot, words):
    cloud.add()
    with pytest.raises(exception.NoValidHost):
        boot(requested_destination=specs.destination(**words))


def test_a_requested_destination_is_filtered(cloud, boot):
    node = cloud.add()
    with pytest.raises(exception.NoValidHost):
        boot(flavor=IMPOSSIBLE, requested_destination=specs.destination(host=node.host))


@pytest.mark.parametrize(
    'cell', [pytest.param(CELL, id='one cell'), pytest.param(OTHER_CELL, id='the other')]
)
def test_a_requested_cell(cloud, boot, daemon, cell):
    mine = [
        node.host for one in (CELL, OTHER_CELL) for node in cloud.add(2, cell=one) if one == cell
    ]
    for _ in range(4):
        (found,) = boot(requested_destination=specs.destination(cell=cell))
        assert sorted(selection.service_host for selection in found) == sorted(mine)
    assert 'user:secret' not in daemon.said()  # what a CellMapping carries


def test_a_requested_cell_is_but_a_wish_for_a_move_across_cells(cloud, hosts):
    node = cloud.add()
    elsewhere = specs.destination(cell=OTHER_CELL, allow_cross_cell_move=True)
    assert hosts(requested_destination=elsewhere) == [node.host]


def test_a_disabled_host_takes_nothing_until_it_is_enabled(cloud, boot, hosts):
    node = cloud.add()
    cloud.switch(node.host, disabled=True)
    with pytest.raises(exception.NoValidHost):
        boot()
    cloud.switch(node.host, disabled=False)
    assert hosts() == [node.host]


def test_a_spec_that_was_tried_before(cloud, hosts):
    tried, other = cloud.add(2)
    retry = {'num_attempts': 2, 'hosts': [[tried.host, tried.hypervisor_hostname]]}
    assert hosts(retry=retry, ignore_hosts=[tried.host]) == [other.host]
