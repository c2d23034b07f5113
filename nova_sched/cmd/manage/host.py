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
"""`host`: compute hosts as the schedulers know them, and an operator's settings of them."""

import dataclasses
import textwrap

from nova_sched import errors
from nova_sched.cmd.manage import claim, rows, store, tables
from nova_sched.objects.claim import DISK_GB, MEMORY_MB, PENDING, PLANNED, VCPU

NOUN = 'host'
HELP = 'show compute hosts, and take them out of service or back into it'


def list_hosts(args, conf):
    """List compute nodes: their state, resources and usage

    A host has one node, unless it manages bare metal. Columns:

      State      up; down (no sign of life for service_down_time seconds); disabled; forced down
      Seen       time since the last report or other sign of life
      vCPU, ...  used / capacity (total x allocation ratio); used is claims and unclaimed usage,
                 capacity does not include the reserved amount
      Claims     claims on the node, and in brackets those that it has not confirmed yet

    Keys with --format json: host, node, node_uuid, cell_uuid, zones, state, disabled_reason,
    last_seen, resources (by class: total, reserved, ratio, capacity, claimed, foreign, used,
    available), claims (number by state), foreign_instances.
    """
    known = store.read_cloud(conf)
    found = rows.nodes(known, args.host, args.zone)
    tables.show(tables.listing(args.format, columns(known.now_s), found))
    return 0


def show(args, conf):
    """Show all facts about one host

    Its service, zones and aggregates; for each node the inventories, their usage by claims and
    unclaimed usage, traits and instances; the claims one by one.

    Keys with --format json: host, state, last_seen, zones, service (disabled, disabled_reason,
    forced_down), aggregates (id, uuid, name, metadata), instances, nodes (as in 'host list', and
    generation, hypervisor_type, hypervisor_version, host_ip, running_vms, traits, units), claims
    (as in 'claim list').
    """
    known = store.read_cloud(conf)
    _check(known, [args.host])
    found = rows.host(known, args.host)
    tables.show(tables.as_json(found) if args.format == 'json' else page(found, known.now_s))
    return 0


def disable(args, conf):
    """Take hosts out of service: they get no new servers

    Servers on the hosts stay. Running schedulers see it at their next poll of the database, that
    is within [claims] refresh_interval seconds.

    Keys with --format json: host, disabled, disabled_reason, forced_down.
    """
    return _set_service(args, conf, disabled=True, disabled_reason=args.reason)


def enable(args, conf):
    """Take hosts back into service

    A host that was forced down stays so.

    Keys with --format json: host, disabled, disabled_reason, forced_down.
    """
    return _set_service(args, conf, disabled=False, disabled_reason=None)


def _set_service(args, conf, **word):
    claims = store.opened(conf)
    known = store.CloudFacts(claims.changes({}), claims.now_s())
    _check(known, args.hosts)
    services = [
        dataclasses.replace(known.service(host), **word) for host in dict.fromkeys(args.hosts)
    ]
    for service in services:
        claims.set_service(service)
    if args.format == 'json':
        tables.show(tables.as_json([{'host': one.host, **rows.service(one)} for one in services]))
    else:
        tables.show('\n'.join(sentence(one, known.disabled_by_node(one.host)) for one in services))
    return 0


def _check(known, hosts):
    unknown = [host for host in hosts if not known.knows(host)]
    if unknown:
        raise errors.NotFound(f'Host {", ".join(unknown)}')


def sentence(service, disabled_by_node):
    """The result of an operator's change to a host."""
    if service.disabled:
        reason = f': {service.disabled_reason}' if service.disabled_reason else ''
        return f'Host {service.host} is disabled{reason}.'
    if service.forced_down:
        return f'Host {service.host} is enabled, but forced down.'
    if disabled_by_node:
        return f'Host {service.host} is enabled here, but reports itself as disabled.'
    return f'Host {service.host} is enabled.'


# Text output.


def columns(now_s):
    """The columns of a list of nodes."""
    return {
        'Host': lambda row: row['host'],
        'Node': lambda row: row['node'],
        'Zone': lambda row: ', '.join(row['zones']),
        'State': lambda row: row['state'],
        'Seen': lambda row: tables.age(row['last_seen'], now_s),
        'vCPU': lambda row: _use(row, VCPU),
        'RAM (MiB)': lambda row: _use(row, MEMORY_MB),
        'Disk (GiB)': lambda row: _use(row, DISK_GB),
        'Claims': lambda row: _claims(row['claims']),
    }


def _use(row, resource_class):
    one = row['resources'].get(resource_class)
    if one is None:
        return '-'
    return f'{one["used"]} / {one["capacity"]} ({one["total"]} x {tables.number(one["ratio"])})'


def _claims(states):
    waiting = states[PLANNED] + states[PENDING]
    return f'{sum(states.values())}' + (f' ({waiting})' if waiting else '')


def page(found, now_s):
    """A host as text: its lines, then for each node lines and inventories, then the claims."""
    lines = [
        f'Host        {found["host"]}',
        f'State       {found["state"]}, last seen {tables.age(found["last_seen"], now_s)}',
        f'Service     {tables.service(found["service"])}',
        f'Zones       {", ".join(found["zones"])}',
        f'Aggregates  {"; ".join(map(_aggregate, found["aggregates"])) or "none"}',
        _words('Instances', found['instances'], 'none reported'),
    ]
    for node in found['nodes']:
        lines += ['', *_node_lines(node), tables.table(INVENTORY, list(node['resources'].items()))]
    if found['claims']:
        lines += ['', 'Claims', tables.table(claim.columns(now_s), found['claims'])]
    return '\n'.join(lines)


def _words(label, words, none):
    """A line for a list of words, or several."""
    return textwrap.fill(f'{label:12}{", ".join(words) or none}', 110, subsequent_indent=' ' * 12)


def _aggregate(one):
    facts = [
        f'id {one["id"]}',
        *(f'{key}={value}' for key, value in sorted(one['metadata'].items())),
    ]
    return f'{one["name"]} ({", ".join(facts)})'


def _node_lines(node):
    version = f' {node["hypervisor_version"]}' if node['hypervisor_version'] else ''
    return [
        f'Node        {node["node"]}',
        f'UUID        {node["node_uuid"]}, generation {node["generation"]}',
        f'Cell        {node["cell_uuid"] or "not reported"}',
        f'Hypervisor  {node["hypervisor_type"] or "not reported"}{version}',
        f'Address     {node["host_ip"] or "not reported"}',
        _words('Traits', node['traits'], 'none'),
        (
            f'Foreign     {tables.count(node["foreign_instances"], "instance")} that no '
            'claim explains'
        ),
    ]


INVENTORY = {
    'Resource class': lambda item: item[0],
    'Total': lambda item: item[1]['total'],
    'Reserved': lambda item: item[1]['reserved'],
    'Ratio': lambda item: tables.number(item[1]['ratio']),
    'Capacity': lambda item: item[1]['capacity'],
    'Claimed': lambda item: item[1]['claimed'],
    'Foreign': lambda item: item[1]['foreign'],
    'Available': lambda item: item[1]['available'],
}


# The command line.


def _list_arguments(parser):
    parser.add_argument('--zone', help='only hosts of this availability zone')
    parser.add_argument(
        '--host',
        metavar='NAME',
        action='append',
        default=[],
        help="only this host; a pattern such as 'rack1-*' names several; may be repeated",
    )


def _show_arguments(parser):
    parser.add_argument('host', metavar='HOST', help='name of the host')


def _enable_arguments(parser):
    parser.add_argument('hosts', metavar='HOST', nargs='+', help='name of a host')


def _disable_arguments(parser):
    _enable_arguments(parser)
    parser.add_argument('--reason', metavar='TEXT', help='reason, shown with the host')


VERBS = (
    ('list', list_hosts, _list_arguments),
    ('show', show, _show_arguments),
    ('disable', disable, _disable_arguments),
    ('enable', enable, _enable_arguments),
)
