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
"""What callers asked and were told against what the tables say: wrong answers, and broken
policies.

Answers are as `caller` describes them. They and rows are plain values: none of our code has a hand
in it.
"""

import collections
import json

from nova_sched.tests.integration import audit

REFUSED, NO_ANSWER = 'NoValidHost', 'NoAnswer'


def claims_of(claims):
    """consumer -> its rows of the table."""
    found = collections.defaultdict(list)
    for claim in claims:
        found[claim['consumer_uuid']].append(claim)
    return found


def wrong(orders, answers, claims):
    """Every order has one answer, and the tables say the same."""
    times = collections.Counter(answer['number'] for answer in answers)
    for order in orders:
        if times[order['number']] != 1:
            yield f'{_name(order)} has {times[order["number"]]} answers'
    held = claims_of(claims)
    asked = {instance for order in orders for instance in order['instances']}
    for stranger in held.keys() - asked:
        yield f'{stranger} has a claim without a request'
    for answer in answers:
        yield from _differences(answer, [held[instance] for instance in answer['instances']])


def _differences(answer, held):
    """``held`` are the claims of each of its instances."""
    on = [[claim['node_uuid'] for claim in claims] for claims in held]
    if answer['error'] is None:
        for instance, node, nodes in zip(answer['instances'], answer['nodes'], on, strict=True):
            if nodes != [node]:
                yield (
                    f'{_name(answer)} was told {node} for {instance}, which has claims on {nodes}'
                )
    elif answer['error'] == NO_ANSWER:
        if len({len(nodes) for nodes in on}) > 1 or any(len(nodes) > 1 for nodes in on):
            yield f'{_name(answer)} had no answer, and its instances have claims on {on}'
    elif answer['error'] != REFUSED:
        yield f'{_name(answer)} failed with {answer["error"]}: {answer["reason"]}'
    elif any(on):
        yield f'{_name(answer)} was refused, and its instances have claims on {on}'
    for claim in (claim for claims in held for claim in claims):
        if (has := _holds(claim)) != (asks := _asks(answer)):
            yield f'{_name(answer)} asks {asks} for each, and a claim has {has}'


def _asks(order):
    asks = order['asks']
    return {
        **asks['resources'],
        **{name: asks[name] for name in ('cpus', 'pages', 'devices') if asks[name]},
    }


def _holds(claim):
    found = collections.Counter(json.loads(claim['resources']))
    names = {'cpu': 'cpus', 'pages': 'pages', 'device': 'devices'}
    for (kind, *_), count in audit.parts(claim).items():
        found[names[kind]] += count
    return dict(found)


def broken(answers, claims, nodes):
    """Hard policies that do not hold: members are what the callers say, where they are says the
    database."""
    hosts = {node['uuid']: node['host'] for node in nodes}
    held, members, groups = claims_of(claims), collections.defaultdict(set), {}
    for answer in answers:
        if group := answer['group']:
            groups[group['uuid']] = group
            members[group['uuid']].update(answer['instances'])
    for uuid, group in groups.items():
        theirs = [claim for member in members[uuid] for claim in held[member]]
        on = collections.Counter(claim['node_uuid'] for claim in theirs)
        if group['policy'] == 'anti-affinity' and max(on.values(), default=0) > group['most']:
            most = max(on, key=on.get)
            yield (
                f'anti-affinity of {uuid}: {on[most]} members on {hosts[most]}, '
                f'not {group["most"]}'
            )
        if group['policy'] == 'affinity' and len({hosts[node] for node in on}) > 1:
            yield f'affinity of {uuid}: members on {sorted(hosts[node] for node in on)}'
        for claim in theirs:
            if claim['group_uuid'] != uuid:
                yield (
                    f'a claim of {claim["consumer_uuid"]} is of group {claim["group_uuid"]}, '
                    f'not {uuid}'
                )


def _name(order):
    return f'{order["kind"]} {order["number"]}'
