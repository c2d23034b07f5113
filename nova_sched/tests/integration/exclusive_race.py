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
"""One of several processes that move hosts among racks, close racks and open them, on one
database.

    python -m nova_sched.tests.integration.exclusive_race URL ROLE ROUNDS

ROLE is one of report, aggregate, plan, enter, boot. Prints how many of its rounds came about.
"""

import random
import sys

from nova_sched.claim import PLANNED
from nova_sched.claims import ClosedDomain, Domain, GroupRecord, Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine
from nova_sched.tests.builders import NOW, aggregate, claim, guarded, report, uuid_of
from nova_sched.tests.unit.claims.batteries.group_records.domain_nodes import Racks
from nova_sched.tests.unit.claims.batteries.group_records.exclusive_domains import until_done
from nova_sched.tests.unit.claims.batteries.steps import node

HOSTS = [f'host-{number}' for number in range(8)]
RACKS = [f'r{number}' for number in range(3)]


def move(store, chance, _name):
    """A host reports that it is in a rack, or its node is removed and comes again."""
    host = chance.choice(HOSTS)
    if chance.random() < 0.2:
        store.remove_node(node(host))
    store.report([report(host, vcpus=64, stats={'rack': chance.choice(RACKS)})], NOW)
    return True


def regroup(store, chance, _name):
    """An aggregate names a rack for some hosts, or for none."""
    number, hosts = chance.randrange(2), chance.sample(HOSTS, chance.randrange(3))
    store.set_aggregate(number, aggregate(number, hosts, rack=chance.choice(RACKS)))
    return True


def close(store, chance, name):
    """A group has a rack for itself; it believes to know who is in it. Then it goes, or its claims
    do."""
    rack, host, group = chance.choice(RACKS), chance.choice(HOSTS), uuid_of(name)
    token = uuid_of(f'{name} {rack}')
    fence = ClosedDomain(token, frozenset([node(host)]), Domain('rack', rack, group))
    words = {'state': PLANNED, 'top_group': group, 'member': 'web', 'fences': (token,)}
    made = claim(uuid_of(f'web of {name}'), node(host), **words)
    planned = guarded((made,), record=GroupRecord(group), serial=0, closed_domains=(fence,))
    if not store.commit([planned])[0].won:
        return False
    if chance.random() < 0.5:
        store.commit([guarded((), (made.key,), record=GroupRecord(group, deleted=True), serial=1)])
    else:
        store.release([made.key])
    return True


def enter(store, chance, name):
    """A server of a group comes to a rack that the group has for itself, and goes."""
    if not (closed := sorted(store.domains().items())):
        return False
    token, domain = chance.choice(closed)
    words = {'top_group': domain.top_group, 'member': 'web', 'fences': (token,)}
    made = claim(uuid_of(f'enter {name}'), node(chance.choice(HOSTS)), **words)
    won = store.commit([Placement((made,))])[0].won
    store.release([made.key])
    return won


def boot(store, chance, name):
    """A server of no group comes, and goes."""
    made = claim(uuid_of(f'boot {name}'), node(chance.choice(HOSTS)))
    won = store.commit([Placement((made,))])[0].won
    store.release([made.key])
    return won


ROLES = {
    'report': move,
    'aggregate': regroup,
    'plan': close,
    'enter': enter,
    'boot': boot,
}


def main():
    url, role, rounds = sys.argv[1:]
    store, chance = SqlClaimStore(engine.create(url)), random.Random(role)
    store.locator = Racks()
    print('ready', flush=True)
    sys.stdin.readline()
    names = (f'{role} {number}' for number in range(int(rounds)))
    print(sum(until_done(ROLES[role], store, chance, name) for name in names))


if __name__ == '__main__':
    main()
