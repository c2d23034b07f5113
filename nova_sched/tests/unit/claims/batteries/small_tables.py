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
"""Services, aggregates and lists of instances."""

import dataclasses

from nova_sched.claims import ServiceFacts
from nova_sched.tests.builders import NOW, aggregate, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import HOST, OTHER, THIRD, A, B, C


class SmallTables:
    """Services, aggregates and instance lists."""

    @each_afresh(
        'service',
        {
            'plain': ServiceFacts(HOST),
            'everything': ServiceFacts(HOST, True, 'kaputt é', True, NOW + 0.25),
        },
    )
    def test_services(self, store, another, service):
        store.set_service(ServiceFacts(HOST, disabled=True, disabled_reason='before'))
        store.set_service(ServiceFacts(OTHER))
        store.set_service(service)
        found = another().changes({}).services
        assert sorted(found, key=lambda one: one.host) == [service, ServiceFacts(OTHER)]

    @each_afresh(
        'word, disabled, reason, forced_down',
        {
            'nothing said': ({'disabled': None, 'forced_down': None}, True, 'repair', True),
            'enabled': ({'disabled': False, 'forced_down': None}, False, None, True),
            'not forced down': ({'disabled': None, 'forced_down': False}, True, 'repair', False),
        },
    )
    def test_what_is_not_reported_of_a_service_stays(
        self, store, another, word, disabled, reason, forced_down
    ):
        """As the store has it: the sender may not have heard of the last change."""
        another().set_service(ServiceFacts(HOST, True, 'repair', True, NOW))
        kept = store.set_service(ServiceFacts(HOST, seen_s=NOW + 1, **word))
        assert kept == ServiceFacts(HOST, disabled, reason, forced_down, NOW + 1)
        assert another().changes({}).services == (kept,)

    def test_a_change_of_a_service_that_the_stored_settings_forbid(self, store, another):
        stored = ServiceFacts(HOST, True, 'repair', True, NOW)
        another().set_service(stored)
        asked = []
        kept = store.set_service(ServiceFacts(HOST), lambda there: asked.append(there))
        assert kept == stored
        assert store.set_service(ServiceFacts(OTHER), lambda there: asked.append(there)) == (
            ServiceFacts(OTHER)
        )
        assert asked == [stored, ServiceFacts(OTHER)]
        assert another().changes({}).services == (stored,)

    def test_aggregates(self, store, another):
        first = aggregate(1, [HOST, OTHER], availability_zone='zone é', **{'trait:X': 'required'})
        second = dataclasses.replace(aggregate(2, []), uuid=uuid_of('aggregate'))
        for one in (aggregate(1, [THIRD]), second, first, aggregate(3, [HOST])):
            store.set_aggregate(one.id, one)
        store.set_aggregate(3, None)
        store.set_aggregate(4, None)
        found = another().changes({}).aggregates
        assert sorted(found, key=lambda one: one.id) == [first, second]

    def test_instance_lists(self, store, another):
        many = frozenset(uuid_of(f'instance {number}') for number in range(3000))
        for host, instances in [
            (HOST, frozenset([A])),
            (OTHER, many),
            (HOST, frozenset([B, C])),
            (THIRD, frozenset()),
        ]:
            store.set_instances(host, instances)
        assert another().changes({}).instances == {
            HOST: frozenset([B, C]),
            OTHER: many,
            THIRD: frozenset(),
        }

    def test_names_differ_in_case(self, store, another):
        for host in ('Host', 'host'):
            store.set_service(ServiceFacts(host))
            store.set_instances(host, frozenset())
        found = another().changes({})
        assert {one.host for one in found.services} == set(found.instances) == {'Host', 'host'}


BATTERY = (SmallTables,)
