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
import fnmatch

from nova_sched import errors
from nova_sched.claim import DISK_GB, MEMORY_MB, PENDING, PLANNED, VCPU
from nova_sched.claims.cloud_facts import UNKNOWN, UP, CloudFacts
from nova_sched.claims.maintenance import ClaimMaintenance, HasClaims
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import claim, output, rows, store, tables
from nova_sched.cmd.manage.arguments import option
from nova_sched.conf.cluster import READ_FROM_NOVA, SET_BY_NOVA, reads_nova
from nova_sched.words import suggestion

REMOVED_BY_NOVA = (
    f"{READ_FROM_NOVA}: Nova's API removes a compute service and its compute nodes (openstack "
    'compute service delete), and then schedulers forget them'
)


def list_hosts(args, conf):
    """List compute nodes: their state, resources and usage

    A host has one node, unless it manages bare metal. Columns:

      State      up; down (no heartbeat for service_down_time seconds); disabled; forced down;
                 unknown, where hosts are read from Nova: 'cloud status' shows it there
      Seen       time since the last report or other heartbeat; not where hosts are read from
                 Nova
      vCPU, ...  used / capacity (total x allocation ratio); used is claims and unclaimed usage,
                 capacity does not include the reserved amount
      Claims     claims on the node, and in brackets those that it has not confirmed yet

    Keys: host, node, node_uuid, cell_uuid, zones, state, disabled_reason,
    last_seen, resources (by class: total, reserved, ratio, capacity, claimed, foreign, used,
    available), claims (number by state), foreign_instances.
    """
    known = rows.read_cloud(conf)
    nodes = rows.nodes(known, args.host, args.zone)
    output.show(args, nodes, columns(known))
    return 0


def show(args, conf):
    """Show all facts about one host

    Its service, zones and aggregates; for each node the inventories, their usage by claims and
    unclaimed usage, traits and instances; the claims one by one. Where hosts are read from Nova,
    only Nova has the service: state and last_seen are as in 'host list', and service has nulls.

    Keys: host, state, last_seen, zones, service (disabled, disabled_reason,
    forced_down), aggregates (id, uuid, name, metadata), instances, nodes (as in 'host list', and
    generation, hypervisor_type, hypervisor_version, host_ip, running_vms, traits, units), claims
    (as in 'claim list').
    """
    known = rows.read_cloud(conf)
    if not known.knows(args.host):
        raise errors.HostNotFound(f'Host {args.host}', suggestion(args.host, known.hosts()))
    shown = rows.host(known, args.host)
    output.show(args, shown, text=lambda row: page(row, known))
    return 0


def disable(args, conf):
    """Take hosts out of service: they get no new servers

    Servers on the hosts stay. Running schedulers see it at their next poll of the database, that
    is within [claims] refresh_interval seconds. Where hosts are read from Nova it is refused:
    Nova's API disables a compute service.

    Keys: host, disabled, disabled_reason, forced_down.
    """
    _demand_reports(conf, 'host disable', SET_BY_NOVA)
    return _set_service(args, conf, disabled=True, disabled_reason=args.reason)


def enable(args, conf):
    """Take hosts back into service

    A host that was forced down stays so. Where hosts are read from Nova it is refused: Nova's API
    enables a compute service.

    Keys: host, disabled, disabled_reason, forced_down.
    """
    _demand_reports(conf, 'host enable', SET_BY_NOVA)
    return _set_service(args, conf, disabled=False, disabled_reason=None)


def _demand_reports(conf, verb, why):
    """Raise InvalidRequest where hosts are read from Nova: no scheduler would heed the verb."""
    if reads_nova(conf):
        raise errors.InvalidRequest(verb, why)


def _set_service(args, conf, **word):
    claims = SqlClaimStore(store.ready(conf))
    known = CloudFacts(claims.changes({}), claims.now_s())
    # None: what was forced down since the read stays so.
    services = [
        claims.set_service(dataclasses.replace(known.service(host), forced_down=None, **word))
        for host in named(known, args)
    ]
    lines = [sentence(service, known.disabled_by_node(service.host)) for service in services]
    shown = [{'host': service.host, **rows.service(service)} for service in services]
    output.show(args, shown, text=lambda _: '\n'.join(lines))
    return 0


def remove(args, conf):
    """Remove hosts that have left for good: their nodes, settings and instance lists

    A host that is up would report itself again, so it is refused. With --force the claims on the
    host end, too; without it a host with claims is refused. Nothing is removed if one of the hosts
    is refused. Running schedulers see it at their next poll of the database. Where hosts are read
    from Nova it is refused: schedulers forget a host when Nova has no compute node of it.

    Keys: host, nodes (their UUIDs), claims (how many have ended).
    """
    _demand_reports(conf, 'host remove', REMOVED_BY_NOVA)
    known = rows.read_cloud(conf)
    hosts = named(known, args)
    nodes = {host: known.nodes_of(host) for host in hosts}
    claims = {host: sum(len(facts.claims) for facts in nodes[host]) for host in hosts}
    for host in hosts:
        if known.state(host) == UP:
            why = f'host {host} is up: stop its nova-compute and its agent first'
            raise errors.InvalidRequest('host remove', why)
        if claims[host] and not args.force:
            raise HasClaims(host, claims[host])
    maintenance = ClaimMaintenance(store.ready(conf))
    removed = []
    for host in hosts:
        uuids = [facts.report.node_uuid for facts in nodes[host]]
        ended = maintenance.remove_host(host, uuids, known.now_s, args.force)
        removed.append({'host': host, 'nodes': uuids, 'claims': ended})
    lines = [
        f'Host {row["host"]} is removed, with {tables.count(len(row["nodes"]), "node")} and '
        f'{tables.count(row["claims"], "claim")}.'
        for row in removed
    ]
    output.show(args, removed, text=lambda _: '\n'.join(lines))
    return 0


def named(known, args):
    """The hosts that names and patterns on the command line mean. Raises NotFound."""
    hosts, meant = known.hosts(), {}
    for name in args.hosts:
        matching = [name] if name in hosts else fnmatch.filter(hosts, name)
        if not matching:
            raise errors.HostNotFound(f'Host {name}', suggestion(name, hosts))
        meant.update(dict.fromkeys(matching))
    return list(meant)


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


def columns(known):
    """The columns of a list of nodes."""
    seen = {'Seen': lambda row: tables.age(row['last_seen'], known.now_s)}
    return {
        'Host': lambda row: row['host'],
        'Node': lambda row: row['node'],
        'Zone': lambda row: ', '.join(row['zones']),
        'State': lambda row: row['state'],
        **({} if known.reads_nova else seen),
        'vCPU': lambda row: _use(row, VCPU),
        'RAM (MiB)': lambda row: _use(row, MEMORY_MB),
        'Disk (GiB)': lambda row: _use(row, DISK_GB),
        'Claims': lambda row: _claims(row['claims']),
    }


def _use(row, resource_class):
    amounts = row['resources'].get(resource_class)
    if amounts is None:
        return '-'
    ratio = tables.number(amounts['ratio'])
    return f'{amounts["used"]} / {amounts["capacity"]} ({amounts["total"]} x {ratio})'


def _claims(states):
    waiting = states[PLANNED] + states[PENDING]
    return f'{sum(states.values())}' + (f' ({waiting})' if waiting else '')


def _state(host, known):
    if host['state'] == UNKNOWN:
        return f'{host["state"]}: nova-sched-manage cloud status shows it'
    if known.reads_nova:
        return host['state']
    return f'{host["state"]}, last seen {tables.age(host["last_seen"], known.now_s)}'


def page(host, known):
    """A host as text: its lines, then for each node lines and inventories, then the claims."""
    lines = [
        f'Host        {host["host"]}',
        f'State       {_state(host, known)}',
        f'Service     {tables.service(host["service"])}',
        f'Zones       {", ".join(host["zones"])}',
        f'Aggregates  {"; ".join(map(_aggregate, host["aggregates"])) or "none"}',
        _words('Instances', host['instances'], 'none reported'),
    ]
    for node in host['nodes']:
        version = f' {node["hypervisor_version"]}' if node['hypervisor_version'] else ''
        foreign = tables.count(node['foreign_instances'], 'instance')
        lines += [
            '',
            f'Node        {node["node"]}',
            f'UUID        {node["node_uuid"]}, generation {node["generation"]}',
            f'Cell        {node["cell_uuid"] or "not reported"}',
            f'Hypervisor  {node["hypervisor_type"] or "not reported"}{version}',
            f'Address     {node["host_ip"] or "not reported"}',
            _words('Traits', node['traits'], 'none'),
            f'Foreign     {foreign} that no claim explains',
            tables.table(INVENTORY, list(node['resources'].items())),
        ]
    if host['claims']:
        lines += ['', 'Claims', tables.table(claim.columns(known.now_s), host['claims'])]
    return '\n'.join(lines)


def _words(label, words, none):
    """A line for a list of words, or several."""
    return tables.fill(', '.join(words) or none, f'{label:12}')


def _aggregate(aggregate):
    facts = [
        f'id {aggregate["id"]}',
        *(f'{key}={value}' for key, value in sorted(aggregate['metadata'].items())),
    ]
    return f'{aggregate["name"]} ({", ".join(facts)})'


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


HOSTS = option(
    'hosts',
    metavar='HOST',
    nargs='+',
    help="name of a host; a pattern such as 'rack1-*' names several",
)
VERBS = (
    (
        'list',
        list_hosts,
        option('--zone', help='only hosts of this availability zone'),
        option(
            '--host',
            metavar='NAME',
            action='append',
            default=[],
            help="only this host; a pattern such as 'rack1-*' names several; may be repeated",
        ),
    ),
    ('show', show, option('host', metavar='HOST', help='name of the host')),
    (
        'disable',
        disable,
        HOSTS,
        option('--reason', metavar='TEXT', help='reason, shown with the host'),
    ),
    ('enable', enable, HOSTS),
    (
        'remove',
        remove,
        HOSTS,
        option('--force', action='store_true', help='hosts with claims, too'),
    ),
)
