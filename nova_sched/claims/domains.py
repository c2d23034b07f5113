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
"""Exclusive domains: which tokens a node carries, by the domains that it is in."""

import dataclasses


def carried(fences, domains, known, borne):
    """The tokens that a node carries now; it carried ``fences`` before.

    ``domains`` has the name of its domain by level, ``known`` the exclusive Domains by token.
    ``borne`` are the tokens of the claims on the node. A token of an unknown domain stays, and so
    does a token of a claim.
    """
    here = {token for token, one in known.items() if domains.get(one.level) == one.name}
    return frozenset((fences - (known.keys() - borne)) | here)


def of_host(aggregates, host):
    """The aggregates that a host is in."""
    return [one for one in aggregates if host in one.hosts]


def moved_hosts(before, after):
    """Hosts that may be in other domains after a change of one aggregate; either may be None."""
    old, new = (one.hosts if one else frozenset() for one in (before, after))
    if before and after and before.metadata == after.metadata:
        return old ^ new
    return old | new


def filled(placements, nodes_of):
    """The placements, with all nodes of the domains that they close; ``nodes_of`` returns those of
    a Fence."""
    return [_filled(one, nodes_of) if one.fences else one for one in placements]


def _filled(placement, nodes_of):
    fences = tuple(dataclasses.replace(one, nodes=nodes_of(one)) for one in placement.fences)
    return dataclasses.replace(placement, fences=fences)


def is_closing(placements):
    """Whether the placements close domains that are known."""
    return any(fence.domain for one in placements for fence in one.fences)
