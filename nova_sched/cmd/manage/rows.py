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
"""The cloud as the store has it, and its facts as plain rows: what a verb prints for scripts."""

import collections
import fnmatch

from nova_sched.claim import CONFIRMED, PENDING, PLANNED
from nova_sched.claims.cloud_facts import CloudFacts
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import store, tables
from nova_sched.conf.cluster import reads_nova
from nova_sched.hardware.machine import HardwareAllocation

STATES = (PLANNED, PENDING, CONFIRMED)


def read_cloud(conf):
    """The cloud as it is now. Raises BadConfig or StoreUnavailable."""
    claims = SqlClaimStore(store.ready(conf))
    return CloudFacts(
        claims.changes({}),
        claims.now_s(),
        conf.service_down_time,
        conf.default_availability_zone,
        reads_nova=reads_nova(conf),
    )


def nodes(known, hosts=(), zone=None):
    """A row for each node of these hosts (names or patterns; none: all) in the zone (None:
    any)."""
    return [
        node(known, facts)
        for facts in known.nodes
        if (not hosts or any(fnmatch.fnmatchcase(facts.report.host, pattern) for pattern in hosts))
        and (zone is None or zone in known.zones(facts.report.host))
    ]


def node(known, facts):
    """One node; ``last_seen`` is the last heartbeat of its host, None if it is not known."""
    host = facts.report.host
    states = collections.Counter(claim.state for claim in facts.claims)
    return {
        'host': host,
        'node': facts.report.nodename,
        'node_uuid': facts.report.node_uuid,
        'cell_uuid': facts.report.cell_uuid,
        'zones': known.zones(host),
        'state': known.state(host),
        'disabled_reason': known.service(host).disabled_reason,
        'last_seen': tables.moment(known.seen_s(host)),
        'resources': resources(facts),
        'claims': {state: states[state] for state in STATES},
        'foreign_instances': facts.foreign_instances,
    }


def resources(facts):
    """The amounts and the usage of each resource class on a node, in the class's units."""
    claimed = collections.Counter()
    for claim in facts.claims:
        claimed.update(claim.resources)
    amounts = {}
    for name, inventory in sorted(facts.report.inventories.items()):
        foreign = facts.foreign.get(name, 0)
        used = claimed[name] + foreign
        amounts[name] = {
            'total': inventory.total,
            'reserved': inventory.reserved,
            'ratio': inventory.ratio,
            'capacity': inventory.capacity,
            'claimed': claimed[name],
            'foreign': foreign,
            'used': used,
            'available': inventory.capacity - used,
        }
    return amounts


def host(known, name):
    """All facts about a host."""
    return {
        'host': name,
        'state': known.state(name),
        'last_seen': tables.moment(known.seen_s(name)),
        'zones': known.zones(name),
        'service': service(known.service(name)),
        'aggregates': [
            {
                'id': aggregate.id,
                'uuid': aggregate.uuid,
                'name': aggregate.name,
                'metadata': dict(aggregate.metadata),
            }
            for aggregate in known.aggregates_of(name)
        ],
        'instances': known.instances_of(name),
        'nodes': [{**node(known, facts), **_more(facts)} for facts in known.nodes_of(name)],
        'claims': claims(
            known, [claim for facts in known.nodes_of(name) for claim in facts.claims]
        ),
    }


def service(facts):
    """An operator's settings of a host."""
    return {
        'disabled': facts.disabled,
        'disabled_reason': facts.disabled_reason,
        'forced_down': facts.forced_down,
    }


def _more(facts):
    report = facts.report
    return {
        'generation': facts.generation,
        'hypervisor_type': report.hypervisor_type,
        'hypervisor_version': report.hypervisor_version,
        'host_ip': report.host_ip,
        'running_vms': report.running_vms,
        'traits': sorted(report.traits),
        'units': {
            name: {
                'min_unit': inventory.min_unit,
                'max_unit': inventory.largest,
                'step_size': inventory.step_size,
            }
            for name, inventory in sorted(report.inventories.items())
        },
    }


def claims(known, listed):
    """A row for each claim."""
    return [_claim(claim, known.node(claim.node_uuid)) for claim in listed]


def _claim(claim, facts):
    sizes = claim.resizing
    return {
        'claim_uuid': claim.uuid,
        'consumer_uuid': claim.consumer_uuid,
        'host': facts.report.host if facts else None,
        'node': facts.report.nodename if facts else None,
        'node_uuid': claim.node_uuid,
        'state': claim.state,
        'move': claim.move,
        'resizing': sizes
        and {
            'old': dict(sorted(sizes.old.items())),
            'new': dict(sorted(sizes.new.items())),
            **_parts(sizes.parts or HardwareAllocation()),
        },
        'resources': dict(sorted(claim.resources.items())),
        **_parts(claim.parts or HardwareAllocation()),
        'project_id': claim.project_id,
        'user_id': claim.user_id,
        'group_uuid': claim.group_uuid,
        'request_id': claim.request_id,
        'created_at': tables.moment(claim.created_s),
        'expires_at': tables.moment(claim.expires_s),
    }


def one_claim(known, claim, siblings):
    """All about a claim; ``siblings`` are all claims of its consumer."""

    def place(uuid):
        facts = known.node(uuid)
        return facts and facts.report.host

    return {
        **_claim(claim, known.node(claim.node_uuid)),
        'waits_for': waits_for(claim, siblings, place),
        'counted': claim.counted,
        'image_properties': dict(sorted(claim.image_properties.items())),
    }


def _parts(parts):
    return {
        'cells': [
            {
                'cell': placed.host_cell,
                'dedicated_cpus': sorted(placed.host_cpus),
                'memory_mb': placed.cell.memory_mb,
                'page_kb': placed.pagesize_kb,
            }
            for placed in (parts.cells.cells if parts.cells else ())
        ],
        'devices': [
            {
                name: getattr(device.pool, name)
                for name in ('vendor_id', 'product_id', 'numa_node', 'count')
            }
            for device in parts.devices
        ],
        'providers': [
            {'provider_uuid': allotted.provider_uuid, 'resources': dict(allotted.resources)}
            for allotted in parts.providers
        ],
    }


# The next step of a claim as text, and the component that has to do it.

SETTLED = 'claims.confirm_claim'
BACK = 'claims.revert_claim'


def waits_for(claim, siblings, place):
    """The event that a claim waits for; None for nothing.

    ``siblings``: all claims of its consumer. ``place``: maps a node UUID to the host, None if it
    is gone.
    """
    if place(claim.node_uuid) is None:
        return 'its node is gone: nova-sched-manage claim audit --fix ends it'
    elsewhere = [other for other in siblings if other.node_uuid != claim.node_uuid]
    if claim.state == PLANNED:
        return 'the request for this member of its group; it ends when it expires'
    if not claim.is_confirmed:
        return f'the host to report the instance, or {SETTLED}; it ends when it expires'
    if claim.resizing:
        return f'{SETTLED} makes the new size final, {BACK} brings the old one back'
    if claim.move and elsewhere:
        hosts = _hosts(elsewhere, place)
        if claim.keeps_source:
            return f'{SETTLED} ends the claim on {hosts}, {BACK} ends this one'
        return f'{hosts} to report that the instance is gone, or {SETTLED}'
    leaving = next((other for other in elsewhere if other.move), None)
    if leaving is None:
        return None
    moves = f'the {leaving.move} to {_hosts([leaving], place)}'
    if leaving.keeps_source:
        return f'{moves}: {SETTLED} ends this claim, {BACK} keeps it'
    return f'{moves}: it ends when its host reports that the instance is gone'


def _hosts(claims, place):
    return ', '.join(sorted(place(claim.node_uuid) or 'a node that is gone' for claim in claims))
