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
"""A summary of a definition as plain values, for authors of templates."""


def of(definition):
    """Returns ``members`` and ``policies`` as lists of mappings, and ``warnings``.

    A member has path, flavor (its name, or null), vcpus, memory_mb, disk_gb (local),
    availability_zone. A policy has name, kind, level, members, others (the other side of a
    relation), weight (null: required). An anti-affinity also has most (members in a domain), a
    spread min_domains and max_skew (null: any).
    """
    return {
        'members': [_member(one) for one in definition.members.values()],
        'policies': [_policy(one) for one in definition.policies],
        'warnings': list(definition.warnings),
    }


def _member(member):
    flavor = member.flavor
    root_gb = 0 if member.boots_from_volume else flavor.root_gb
    return {
        'path': member.path,
        'flavor': flavor.name,
        'vcpus': flavor.vcpus,
        'memory_mb': flavor.memory_mb,
        'disk_gb': root_gb + flavor.ephemeral_gb,
        'availability_zone': member.availability_zone,
    }


def _policy(policy):
    return {
        'name': policy.name,
        'kind': policy.kind,
        'level': policy.level,
        'members': list(policy.a),
        'others': list(policy.b),
        'weight': policy.weight,
        'most': policy.most,
        'min_domains': policy.min_domains,
        'max_skew': policy.max_skew,
    }
