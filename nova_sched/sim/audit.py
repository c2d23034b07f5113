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
"""Checks after a replay: no node is over its capacity, and each running server has exactly one
claim."""

import collections
import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """The scheduler's record of one node: usage and capacity by resource class, and the consumers
    of its claims."""

    host: str
    used: Mapping[str, int]
    capacity: Mapping[str, int]
    holders: frozenset[str]


def from_store(store):
    """Returns accounts of all nodes, read from the claim store."""
    return [_stored(facts) for facts in store.changes({}).nodes]


def _stored(facts):
    used = collections.Counter(facts.foreign)
    for claim in facts.claims:
        used.update(claim.resources)
    capacity = {name: inventory.capacity for name, inventory in facts.report.inventories.items()}
    return Account(
        facts.report.host, used, capacity, frozenset(claim.consumer_uuid for claim in facts.claims)
    )


def from_answers(fleet):
    """Returns accounts of the fleet's nodes, from the scheduler's answers to their last
    reports."""
    amounts = {
        uuid: claim.resources
        for node in fleet.nodes.values()
        for uuid, claim in node.instances.items()
    }
    return [_answered(node, fleet.answers[node.host], amounts) for node in fleet.nodes.values()]


def _answered(node, answer, amounts):
    used = collections.Counter(answer['foreign'])
    for holder in answer['claims']:
        used.update(amounts.get(holder, {}))
    return Account(node.host, used, node.capacity(), frozenset(answer['claims']))


def audit(accounts, nodes):
    """Returns the differences between the accounts and the nodes that run servers, a sentence
    each."""
    hosts = collections.defaultdict(list)
    for account in accounts:
        for holder in account.holders:
            hosts[holder].append(account.host)
    runs = {instance: node.host for node in nodes for instance in node.instances}
    return [*_overfull(accounts), *_unclaimed(runs, hosts), *_stray(runs, hosts)]


def _overfull(accounts):
    for account in accounts:
        for name, used in sorted(account.used.items()):
            if used > account.capacity.get(name, 0):
                yield (
                    f'{account.host} is over its capacity: '
                    f'{name} {used} of {account.capacity.get(name, 0)}'
                )


def _unclaimed(runs, hosts):
    for instance, host in runs.items():
        if hosts.get(instance, []) != [host]:
            claimed = ', '.join(hosts.get(instance, [])) or 'nothing'
            yield f'server {instance} runs on {host}, but its claims are on {claimed}'


def _stray(runs, hosts):
    for instance, claimed in hosts.items():
        if instance not in runs:
            yield f'server {instance} runs nowhere, but has claims on {", ".join(claimed)}'
