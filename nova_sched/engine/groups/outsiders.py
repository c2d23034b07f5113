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
"""Instances that were on a node before it joined an exclusive domain of a group that they are not
in."""

import logging

from nova_sched import errors

LOG = logging.getLogger(__name__)


def carried(cluster, nodes):
    """Node UUID -> the tokens of the node in the host state; for these nodes."""
    known = {uuid: cluster.node(uuid) for uuid in nodes}
    return {uuid: node.fences if node else frozenset() for uuid, node in known.items()}


def of(node, token):
    """Return UUIDs of the instances on a node that have no claim with the token, and the number of
    all such instances."""
    inside = {claim.consumer_uuid for claim in node.claims.values() if token in claim.fences}
    outside = sorted(
        (node.report.instances or frozenset()) - inside | (node.claims.keys() - inside)
    )
    claimed = len(node.claims.keys() - inside)
    return outside, max(len(outside), claimed + node.foreign_instances)


def tell(cluster, store, before):
    """Warn of outside instances on nodes with tokens that they did not have ``before``."""
    come = {
        uuid: node.fences - tokens
        for uuid, tokens in before.items()
        if (node := cluster.node(uuid)) is not None and not node.fences <= tokens
    }
    if not come:
        return
    try:
        domains = store.domains()
    except (errors.StoreUnavailable, errors.StoreBusy):
        domains = {}
    for uuid, tokens in sorted(come.items()):
        for token in sorted(tokens):
            _tell(cluster.node(uuid), token, domains.get(token))


def _tell(node, token, domain):
    where = f'{domain.level} {domain.name}' if domain else f'domain {token}'
    group = f'group {domain.top_group}' if domain else 'a group'
    outside, count = of(node, token)
    if count:
        LOG.warning(
            'Host %s joined %s, an exclusive domain of %s; '
            '%d instances outside the group are there: %s',
            node.host,
            where,
            group,
            count,
            ', '.join(outside) or 'the host does not list them',
        )
    else:
        LOG.info('Host %s joined %s, an exclusive domain of %s', node.host, where, group)
