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
"""The query for Placement's allocation candidates of a request."""

from nova_sched.claim import PCPU, VCPU
from nova_sched.state.report import DISABLED_TRAIT
from nova_sched.state.traits import OWNER

MOST = 1000  # candidates in an answer, as in Nova


def queries(request, in_tree=None, zone=(), is_owned=False):
    """Returns the queries of a request, in order: parameters by name. The next one is asked if the
    one before finds nothing.

    ``in_tree`` is the UUID of the only compute node that the caller allows, if there is one.
    ``zone`` are the UUIDs of the aggregates of its availability zone. ``is_owned``: all providers
    of Nova have the trait OWNER_NOVA.
    """
    owner = {OWNER} if is_owned else set()
    request = request.from_nova() if is_owned else request
    wanted = [request.resources]
    if request.fallback_vcpus:
        resources = {name: units for name, units in request.resources.items() if name != PCPU}
        wanted.append({**resources, VCPU: request.fallback_vcpus})
    # In the tree of a node, Placement finds nothing that is shared with it.
    trees = [None] if in_tree is None else [in_tree, None]
    return [
        _query(request, resources, tree, zone, owner) for tree in trees for resources in wanted
    ]


def _query(request, resources, in_tree, zone, owner):
    query = {
        'limit': MOST,
        'resources': _amounts(resources.items()),
        'required': _traits(request.required_traits, request.forbidden_traits),
        'root_required': _traits(
            {*request.root_required, *owner}, {*request.root_forbidden, DISABLED_TRAIT}
        ),
        'in_tree': in_tree,
        'member_of': _aggregates(request.destination, zone),
        'same_subtree': [','.join(sorted(suffixes)) for suffixes in request.same_subtree],
        'group_policy': request.group_policy if len(request.groups) > 1 else None,
    }
    for group in request.groups:
        query[f'resources{group.suffix}'] = _amounts(group.resources)
        query[f'required{group.suffix}'] = _traits(group.required, group.forbidden)
        query[f'in_tree{group.suffix}'] = group.in_tree
    return {name: value for name, value in query.items() if value}


def _amounts(amounts):
    return ','.join(f'{name}:{units}' for name, units in sorted(amounts))


def _traits(required, forbidden):
    return ','.join([*sorted(required), *(f'!{trait}' for trait in sorted(forbidden))])


def _aggregates(destination, zone):
    """Placement takes sets of aggregates: the provider is in one of each, and in none of the
    forbidden ones."""
    sets = [*destination.aggregates, zone] if destination else [zone]
    parameters = [f'in:{",".join(sorted(some))}' for some in sets if some]
    if destination and destination.forbidden_aggregates:
        parameters.append(f'!in:{",".join(sorted(destination.forbidden_aggregates))}')
    return parameters
