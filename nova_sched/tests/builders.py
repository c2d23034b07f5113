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
"""Builders: hosts, reports and requests with sensible values for all that a test is not about.

``request`` and ``spec`` take the same words, as do ``hosts``, ``cluster`` and ``report``.
"""

import dataclasses
import time
import types
import uuid

from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU, Claim
from nova_sched.claims import GroupGuard, Placement
from nova_sched.claims.reconcile import settle
from nova_sched.state.cluster import Cluster
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.host_state import ATTRIBUTES
from nova_sched.state.report import Inventory, Report, ReportOrder
from nova_sched.state.request import Request
from nova_sched.state.spec import READERS

NOW = 1_800_000_000.0  # seconds since the epoch: when every test of the columns takes place
CELL = '00000000-0000-0000-0000-0000000000ce'


RESOURCES = {'vcpus': VCPU, 'memory_mb': MEMORY_MB, 'disk_gb': DISK_GB}
ONLY_REQUEST = frozenset(
    'pieces resources fallback_vcpus groups group_policy same_subtree unsupported required_traits '
    'forbidden_traits root_required root_forbidden sibling_threads '
    'destination retry_hosts fences allocation_requests together'.split()
)
TOTALS = {'vcpus': 16, 'memory_mb': 65536, 'disk_gb': 1000}


def still():
    """A store's clock that stands still, at the time of claims that say nothing of theirs."""
    return 0.0


def now():
    """The real time, which rules go by when they are asked about one host state."""
    return time.time()


def uuid_of(name):
    """The same UUID for the same name, each time."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def aggregate(number, hosts, **metadata):
    """An aggregate of these hosts."""
    return HostAggregate(number, f'aggregate {number}', frozenset(hosts), metadata)


def guarded(claims, releases=(), generations=None, replaces=frozenset(), **guard):
    """A Placement with a GroupGuard of these fields."""
    return Placement(claims, releases, generations or {}, replaces, GroupGuard(**guard))


def claim(consumer, node, vcpus=1, memory_mb=512, **fields):
    """A claim of one consumer on one node, both by UUID."""
    return Claim(consumer, node, {VCPU: vcpus, MEMORY_MB: memory_mb}, **fields)


def report(host='host-0', **words):
    """A node's report.

    For ``vcpus``, ``memory_mb`` (MiB) and ``disk_gb`` (GiB): the word itself is the total, with
    `_used`, `_reserved` and `_ratio` what those words say. A total of None: the node has none of
    it. Every other word is a field of Report.
    """
    inventories, used = {}, {}
    for word, name in RESOURCES.items():
        total, taken = words.pop(word, TOTALS[word]), words.pop(f'{word}_used', 0)
        reserved, ratio = words.pop(f'{word}_reserved', 0), words.pop(f'{word}_ratio', 1.0)
        if total is not None:
            inventories[name], used[name] = Inventory(total, reserved, ratio), taken
    nodename = words.pop('nodename', host)
    facts = {
        'node_uuid': uuid_of(f'node {nodename}'),
        'cell_uuid': CELL,
        'inventories': inventories,
        'used': used,
    }
    return Report(host=host, nodename=nodename, **{**facts, **words})


def of_now(store, one):
    """The report, by a sender that knows all that the store does of its node."""
    seen, _ = store.heads().get(one.node_uuid, (0, None))
    return dataclasses.replace(one, order=ReportOrder(seen))


def put(into, one, seen_s=NOW):
    """Put a report into a cluster; what it uses is foreign."""
    settled = settle(one, {})
    return into.put(one, (), settled.foreign, settled.foreign_instances, seen_s=seen_s)


def cluster(n=None, aggregates=(), **columns):
    """A cluster of ``n`` nodes, host-0 to host-(n-1).

    Columns are words of ``report``, and ``disabled``, ``forced_down``, ``seen_s`` of the service.
    A list has one value for each node; anything else is the same for all. Without ``n`` there are
    as many nodes as the lists are long.
    """
    if n is None:
        n = max(
            [len(values) for values in columns.values() if isinstance(values, list)], default=1
        )
    made = Cluster()
    made.hosts.now_s = NOW
    for row in range(n):
        words = {word: of[row] if isinstance(of, list) else of for word, of in columns.items()}
        disabled, forced_down = words.pop('disabled', False), words.pop('forced_down', False)
        seen_s = words.pop('seen_s', NOW)
        one = report(**{'host': f'host-{row}', **words})
        put(made, one, seen_s)
        made.set_service(one.host, disabled, None, forced_down)
    for one in aggregates:
        made.set_aggregate(one.id, one)
    return made


def hosts(n=None, aggregates=(), **columns):
    """The hosts of such a cluster, as rules see them."""
    return cluster(n, aggregates, **columns).hosts


def host(**attributes):
    """A Nova-like host state: an object with Nova's attribute names, and nothing behind them."""
    state = {
        'host': 'host-0',
        'nodename': 'host-0',
        'uuid': uuid_of('node host-0'),
        'cell_uuid': CELL,
        'vcpus_total': 16,
        'vcpus_used': 0,
        'total_usable_ram_mb': 65536,
        'free_ram_mb': 65536,
        'total_usable_disk_gb': 1000,
        'free_disk_mb': 1000 * 1024,
        'disk_mb_used': 0,
        'cpu_allocation_ratio': 1.0,
        'ram_allocation_ratio': 1.0,
        'disk_allocation_ratio': 1.0,
        'num_instances': 0,
        'num_io_ops': 0,
        'failed_builds': 0,
        'hypervisor_type': None,
        'hypervisor_version': None,
        'hypervisor_hostname': 'host-0',
        'host_ip': None,
        'cpu_info': None,
        'supported_instances': None,
        'numa_topology': None,
        'pci_stats': None,
        'metrics': None,
        'stats': {},
        'service': {},
        'aggregates': [],
        'instances': {},
        'limits': {},
        'updated': None,
    }
    return types.SimpleNamespace(**{**state, **attributes})


def nova_like(state):
    """A Nova-like host state with what one of our own host states tells, read now."""
    return types.SimpleNamespace(**{name: getattr(state, name) for name in ATTRIBUTES})


def _group(policy='affinity', members=(), hosts=(), rules=None, uuid=None):
    return types.SimpleNamespace(
        uuid=uuid or uuid_of('group'),
        policy=policy,
        policies=[policy],
        members=list(members),
        hosts=list(hosts),
        rules=rules or {},
    )


def spec(**words):
    """A Nova-like RequestSpec.

    Words of the flavor: ``vcpus``, ``memory_mb``, ``root_gb``, ``ephemeral_gb``, ``swap_mb``,
    ``extra_specs``, ``flavor_name``; of the image: ``image_properties``, ``image_id``, ``image``
    (None for none). ``hints`` is scheduler_hints, ``group`` a dict of the instance group. Every
    other word is an attribute of the spec.
    """
    flavor = types.SimpleNamespace(
        vcpus=words.pop('vcpus', 1),
        memory_mb=words.pop('memory_mb', 512),
        root_gb=words.pop('root_gb', 0),
        ephemeral_gb=words.pop('ephemeral_gb', 0),
        swap=words.pop('swap_mb', 0),
        extra_specs=words.pop('extra_specs', {}),
        name=words.pop('flavor_name', 'small'),
    )
    properties = types.SimpleNamespace(**words.pop('image_properties', {}))
    image = types.SimpleNamespace(
        id=words.pop('image_id', uuid_of('image')), properties=properties
    )
    group = words.pop('group', None)
    made = {
        'instance_uuid': uuid_of('instance'),
        'project_id': 'project',
        'user_id': 'user',
        'flavor': flavor,
        'image': words.pop('image', image),
        'scheduler_hints': words.pop('hints', {}),
        'instance_group': _group(**group) if group is not None else None,
        'is_bfv': False,
    }
    return types.SimpleNamespace(**{**made, **words})


def request(**words):
    """The request that such a spec is read as. Words that only a Request has are set on it as they
    are."""
    own = {word: words.pop(word) for word in list(words) if word in ONLY_REQUEST}
    return dataclasses.replace(read(spec(**words)), **own)


def read(one):
    """The request that a spec, built or real, is read as."""
    return Request(**{name: reader(one) for name, reader in READERS.items()}, spec=one)


def mask_of(rule, seen, asked):
    """A filter's mask as text, a digit for each row: `101`; `*` for no opinion."""
    mask = rule().mask(seen, asked)
    return '*' if mask is True else ''.join(map(str, mask.astype(int)))


def runs_of(claims):
    """The confirmed ones of these claims, as a Placement names what its scheduler knows to run."""
    return {(claim.uuid, claim.number): claim.node_uuid for claim in claims if claim.is_confirmed}
