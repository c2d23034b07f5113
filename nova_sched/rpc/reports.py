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
"""Turns a message with a ComputeNode into a Report for the host state."""

import dataclasses

from nova_sched import errors, objects, words
from nova_sched.conf import CONF
from nova_sched.rpc import translate
from nova_sched.state import compute_node
from nova_sched.state.report import MAX_AMOUNT, MAX_BOOT, ReportOrder


def report(node, name=None, instances=None, inventories=None, cell_uuid=None):
    """The Report of a ComputeNode. Raises BadReport with node and field.

    ``name`` is the host that sent it; ``inventories`` a provider tree in Placement's form, whose
    root is the node itself and replaces the ComputeNode's own totals, reserves and ratios.
    ``instances`` are UUIDs, or a mapping of UUIDs to amounts by resource class.
    """
    if not isinstance(node, objects.ComputeNode):
        raise errors.BadReport(
            words.short(name), 'stats', f'it must be a ComputeNode, not {words.kind(node)}'
        )
    node_report = compute_node.report(
        node,
        CONF.stats.max_report_size,
        name=name,
        inventories=inventories,
        cell_uuid=cell_uuid,
        default_cell_uuid=CONF.stats.cell_uuid,
    )
    if instances is None:
        return node_report
    try:
        if not isinstance(instances, dict):
            return dataclasses.replace(node_report, instances=translate.instance_uuids(instances))
        held = translate.instance_amounts(instances)
        return dataclasses.replace(node_report, instances=frozenset(held), held=held)
    except errors.InvalidRequest as error:
        raise errors.BadReport(node_report.nodename, error.where, error.why) from error


def order(seen, boot, sequence):
    """The ReportOrder of a report. Raises InvalidRequest."""
    if seen is not None:
        words.number(seen, 'seen', MAX_AMOUNT, least=0)
    if boot is not None or sequence is not None:
        words.number(boot, 'boot', MAX_BOOT)
        words.number(sequence, 'sequence', MAX_AMOUNT)
    return ReportOrder(seen, boot, sequence)
