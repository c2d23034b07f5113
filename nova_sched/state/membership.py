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
"""The members of a server group as far as claims show, and the hosts open to one more member."""

import collections
import dataclasses
import operator

from nova_sched.claim import EVACUATION, Claim
from nova_sched.state.request import AFFINITY


class Membership:
    """Group UUID -> its members that have claims; ``name`` is the claims' field that has the
    group."""

    def __init__(self, name):
        self._group_of = operator.attrgetter(name)
        self._claims = {}  # group UUID -> consumer -> number of its claims

    def groups(self):
        """Return the UUIDs of the groups with members."""
        return list(self._claims)

    def of(self, group_uuid):
        return self._claims.get(group_uuid, {}).keys()

    def on_several_nodes(self):
        """Return the members that have more than one claim."""
        return {
            consumer
            for members in self._claims.values()
            for consumer, number in members.items()
            if number > 1
        }

    def enter(self, claim):
        if group := self._group_of(claim):
            self._claims.setdefault(group, collections.Counter())[claim.consumer_uuid] += 1

    def leave(self, claim):
        group = self._group_of(claim)
        if not group:
            return
        members = self._claims[group]
        members[claim.consumer_uuid] -= 1
        if not members[claim.consumer_uuid]:
            del members[claim.consumer_uuid]
        if not members:
            del self._claims[group]


def claims_left(cluster, group):
    """Return the UUIDs of the claims that do not count for the policy of a group: in an affinity
    group, those that its members have left behind."""
    if group.policy != AFFINITY:
        return frozenset()
    claims_of = map(cluster.claims_of, cluster.members_of(group.uuid))
    return frozenset(claim.uuid for claims in claims_of for claim in left_behind(cluster, claims))


def left_behind(cluster, claims):
    """Return those of a server's claims that it has left for good, although their hosts, which may
    be down, have not said so: the confirmed ones from before an evacuation that has reached its
    host, or from before the one on the host where Nova has the server at rest. They hold room.
    """
    there = [
        claim
        for claim in claims
        if claim.is_confirmed
        and (
            claim.move == EVACUATION
            or cluster.node(claim.node_uuid).host == cluster.at_rest.get(claim.consumer_uuid)
        )
    ]
    if not there:
        return []
    last = max(there, key=Claim.order)
    return [claim for claim in claims if claim.is_confirmed and claim.order() < last.order()]


def _hosts_of(cluster, claims):
    """Return the hosts where a member of an affinity group is or may be."""
    left = left_behind(cluster, claims)
    return {cluster.node(claim.node_uuid).host for claim in claims if claim not in left}


def group_now(cluster, request, also=()):
    """Return the request's current group, with the instances ``also`` among its members; None
    without one.

    Claims show where members of an affinity group are. The caller and the hosts' messages count
    only for members without claims.
    """
    group = request.group
    if group is None:
        return None
    members = group.members | set(also) | cluster.members_of(group.uuid)
    if group.policy != AFFINITY:
        return dataclasses.replace(group, members=frozenset(members))
    others = members - {request.instance_uuid}
    claimed = [
        _hosts_of(cluster, claims) for other in others if (claims := cluster.claims_of(other))
    ]
    known = frozenset().union(*claimed)
    if not known:
        rows = (row for other in others for row in cluster.hosts.places.get(other, ()))
        known = group.hosts | {cluster.hosts.nodes[row].host for row in rows}
    in_transit = any(hosts != known for hosts in claimed) or (len(known) > 1 and bool(claimed))
    return dataclasses.replace(
        group, members=frozenset(members), hosts=known, in_transit=in_transit
    )
