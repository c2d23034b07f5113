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
"""Hosts and requests that record which facts a rule reads of them."""

from nova_sched.state.facts import OWN_HOSTS, RESOURCES, HostFacts, amount_of
from nova_sched.state.hosts import Hosts
from nova_sched.state.report import LASTING_FIELDS

MACHINE = HostFacts.CELLS | HostFacts.DEVICES  # one value: whoever reads it may read either
OF_HOSTS = {
    HostFacts.LASTING: 'cell cells aggregates aggregate_set hypervisor_type hypervisor_version '
    'cpu_info supported_instances host_ip traits trait_sets rows_of_host spellings is_owned',
    HostFacts.REPORTED: 'now_s seen_s disabled forced_down failed_builds metric_columns',
    HostFacts.AMOUNTS: 'resources resource disk_slack_mb',
    HostFacts.COUNTS: 'num_instances num_io_ops',
    HostFacts.MEMBERS: 'places fences has_exclusive_domains',
    HostFacts.PROVIDERS: 'shape child_classes',
    MACHINE: 'machine free_pci_devices',
}
OF_NODE = {
    HostFacts.LASTING: 'uuid host nodename cell_uuid',
    HostFacts.REPORTED: 'metrics service is_left_out',
    HostFacts.AMOUNTS: 'growth',
    HostFacts.PROVIDERS: 'below',
    HostFacts.MEMBERS: 'claims instances',
}
DERIVED = {
    'instance_uuid': OWN_HOSTS,
    'hint': 'hints',
    'check_type': 'hints',
    'is_rebuild': 'hints',
    'group_uuid': 'group',
}


def by_name(table):
    return {name: fact for fact, names in table.items() for name in names.split()}


FACT_OF_HOSTS, FACT_OF_NODE = by_name(OF_HOSTS), by_name(OF_NODE)


class TracedHosts(Hosts):
    """Hosts that record in ``facts`` what is read of them."""

    def __init__(self, hosts):
        vars(self).update(vars(hosts))
        self.facts = set()
        self.nodes = [TracedNode(node, self.facts) for node in hosts.nodes]

    def __getattribute__(self, name):
        fact = FACT_OF_HOSTS.get(name)
        if fact is not None:
            object.__getattribute__(self, 'facts').add(fact)
        return super().__getattribute__(name)

    def beyond(self, declared):
        """What was read that is not among the declared facts."""
        return {fact for fact in self.facts if not fact & declared}


class TracedNode:
    def __init__(self, node, facts):
        self._node, self._facts = node, facts

    def __getattr__(self, name):
        if name == 'report':
            return TracedReport(self._node.report, self._facts)
        self._facts.add(FACT_OF_NODE[name])
        return getattr(self._node, name)


class TracedReport:
    def __init__(self, report, facts):
        self._report, self._facts = report, facts

    def __getattr__(self, name):
        self._facts.add(HostFacts.LASTING if name in LASTING_FIELDS else HostFacts.REPORTED)
        return getattr(self._report, name)


class TracedRequest:
    """A request that records in ``facts`` what is read of it, None for the message."""

    def __init__(self, request):
        self._request, self.facts = request, set()

    def __getattr__(self, name):
        if name == RESOURCES:
            return TracedAmounts(self._request.resources, self.facts)
        self.facts |= {None} if name == 'spec' else {DERIVED.get(name, name)}
        return getattr(self._request, name)

    def beyond(self, declared):
        """What was read that is not among the declared facts; None: all are declared."""
        if declared is None:
            return set()
        amounts = amount_of('') if RESOURCES in declared else None
        return {
            fact
            for fact in self.facts.difference(declared)
            if not (amounts and fact and (fact.startswith(amounts) or fact == 'resource_classes'))
        }


class TracedAmounts(dict):
    """Amounts that record whether their classes are read, and the amounts of which."""

    def __init__(self, amounts, facts):
        super().__init__(amounts)
        self._facts = facts

    def _classes(self):
        self._facts.add('resource_classes')

    def __getitem__(self, name):
        self._facts.add(amount_of(name))
        return super().__getitem__(name)

    def get(self, name, default=None):
        self._facts.add(amount_of(name))
        return super().get(name, default)

    def __contains__(self, name):
        self._classes()
        return super().__contains__(name)

    def __iter__(self):
        self._classes()
        return super().__iter__()

    def keys(self):
        self._classes()
        return super().keys()

    def items(self):
        self._classes()
        self._facts.update(map(amount_of, super().keys()))
        return super().items()

    def values(self):
        return dict(self.items()).values()
