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
"""Server groups: each policy holds for one request after the other, for many at once, and within
one."""

import collections
from concurrent.futures import ThreadPoolExecutor

import pytest
from nova import exception

from nova_sched.tests.nova_client import specs

AT_ONCE = 8


@pytest.fixture
def join(hosts, context):
    """Boot the members of one group, each by a request of its own, in the order of their UUIDs.

    A request carries the members that were there when it was made, and no hosts: Nova knows those
    only when the servers run.
    """

    def join(policy, members, **rules):
        return [
            hosts(
                instance_uuids=[uuid], group=specs.group(context, policy, members[:place], **rules)
            )[0]
            for place, uuid in enumerate(members, 1)
        ]

    return join


@pytest.fixture
def join_at_once(hosts, context):
    """The same, all requests at the same time; None for one that was refused."""

    def join_at_once(policy, members, **rules):
        group = specs.group(context, policy, members, **rules)

        def one(uuid):
            try:
                return hosts(instance_uuids=[uuid], group=group)[0]
            except exception.NoValidHost:
                return None

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(one, members))

    return join_at_once


def shares(found):
    """How many members the hosts have, the fullest host first."""
    return sorted(collections.Counter(found).values(), reverse=True)


def test_anti_affinity_one_after_the_other(cloud, join):
    cloud.add(3)
    assert shares(join('anti-affinity', specs.uuids(3))) == [1, 1, 1]


def test_anti_affinity_refuses_when_every_host_has_a_member(cloud, join):
    cloud.add(3)
    with pytest.raises(exception.NoValidHost):
        join('anti-affinity', specs.uuids(4))


def test_anti_affinity_at_once(cloud, join_at_once):
    cloud.add(6)
    found = join_at_once('anti-affinity', specs.uuids(AT_ONCE))
    assert found.count(None) == 2
    assert shares(host for host in found if host) == 6 * [1]


def test_anti_affinity_in_one_request(cloud, hosts, boot, context):
    cloud.add(3)
    asked = specs.uuids(3)
    assert shares(
        hosts(instance_uuids=asked, group=specs.group(context, 'anti-affinity', asked))
    ) == [
        1,
        1,
        1,
    ]
    too_many = specs.uuids(4)
    with pytest.raises(exception.NoValidHost):
        boot(instance_uuids=too_many, group=specs.group(context, 'anti-affinity', too_many))
    assert cloud.placed(too_many) == []


def test_anti_affinity_holds_for_alternates(cloud, boot, context):
    nodes = cloud.add(4)
    first, second = specs.uuids(2)
    taken = boot(instance_uuids=[first], group=specs.group(context, 'anti-affinity', [first]))[0][
        0
    ].service_host
    (found,) = boot(
        instance_uuids=[second], group=specs.group(context, 'anti-affinity', [first, second])
    )
    assert {one.service_host for one in found} == {node.host for node in nodes} - {taken}


@pytest.mark.parametrize('ways', ['join', 'join_at_once'])
def test_max_server_per_host(cloud, request, ways):
    cloud.add(3)
    found = request.getfixturevalue(ways)('anti-affinity', specs.uuids(6), max_server_per_host=2)
    assert shares(found) == [2, 2, 2]


def test_max_server_per_host_refuses(cloud, join):
    cloud.add()
    with pytest.raises(exception.NoValidHost):
        join('anti-affinity', specs.uuids(3), max_server_per_host=2)


def test_affinity_one_after_the_other(cloud, join):
    cloud.add(3)
    assert shares(join('affinity', specs.uuids(4))) == [4]


def test_affinity_at_once(cloud, join_at_once):
    cloud.add(3, vcpus=6)
    found = join_at_once('affinity', specs.uuids(AT_ONCE))
    assert found.count(None) == 2
    assert shares(host for host in found if host) == [6]


def test_affinity_in_one_request(cloud, hosts, context):
    cloud.add(3)
    asked = specs.uuids(4)
    assert shares(hosts(instance_uuids=asked, group=specs.group(context, 'affinity', asked))) == [
        4
    ]


def test_affinity_follows_the_hosts_that_nova_names(cloud, hosts, context):
    """The members run there since before the scheduler heard of them."""
    _, theirs, _ = cloud.add(3)
    members = specs.uuids(2)
    group = specs.group(context, 'affinity', members, hosts=[theirs.host])
    assert hosts(instance_uuids=members[1:], group=group) == [theirs.host]


def test_affinity_refuses_when_the_host_of_the_others_is_full(cloud, join):
    cloud.add(3, vcpus=2)
    with pytest.raises(exception.NoValidHost):
        join('affinity', specs.uuids(3))


@pytest.mark.parametrize(
    'policy, vcpus, found',
    [
        pytest.param('soft-affinity', 8, [4], id='together while there is room'),
        pytest.param('soft-affinity', 3, [3, 1], id='together as far as there is room'),
        pytest.param('soft-anti-affinity', 8, [2, 2], id='apart as far as there are hosts'),
    ],
)
def test_soft_policies_prefer_and_never_refuse(cloud, join, policy, vcpus, found):
    cloud.add(2, vcpus=vcpus)
    assert shares(join(policy, specs.uuids(4))) == found


def test_soft_affinity_is_what_keeps_them_together(cloud, hosts):
    """The same servers without a group are spread."""
    cloud.add(2)
    assert shares([hosts()[0] for _ in range(4)]) == [2, 2]
