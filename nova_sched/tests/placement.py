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
"""A request in the words of Placement: the parameters of the query that Nova would send for it."""


def query(request, resources, required):
    """Parameters by name, without empty ones.

    ``resources`` and ``required`` are those outside of groups, which depend on what the host has.
    """
    found = {
        'resources': _amounts(resources.items()),
        'required': _traits(required, request.forbidden_traits),
        'root_required': _traits(request.root_required, request.root_forbidden),
        'group_policy': request.group_policy,
        'same_subtree': ';'.join(sorted(','.join(sorted(some)) for some in request.same_subtree)),
    }
    for group in request.groups:
        found[f'resources{group.suffix}'] = _amounts(group.resources)
        found[f'required{group.suffix}'] = _traits(group.required, group.forbidden)
    return {name: value for name, value in found.items() if value}


def _amounts(pairs):
    return ','.join(f'{name}:{units}' for name, units in sorted(pairs))


def _traits(required, forbidden):
    return ','.join([*sorted(required), *(f'!{trait}' for trait in sorted(forbidden))])
