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
"""What a reader of the changes is told, and when."""

from nova_sched.claims import ServiceFacts
from nova_sched.tests.builders import NOW, aggregate, claim
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    THIRD,
    A,
    B,
    C,
    generation,
    node,
    place,
    ready,
    remove,
)


class ChangeFeed:
    """What a store tells of changes, its own and others'."""

    def test_an_empty_store(self, store):
        first = store.changes({})
        assert (first.nodes, first.gone, first.seen) == ((), (), {})
        assert (first.services, first.aggregates, first.instances) == ((), (), {})

    def test_at_first_everything(self, store, another):
        ready(store, HOST, OTHER)
        made = claim(A, node())
        place(store, made)
        store.set_service(ServiceFacts(HOST, disabled=True))
        store.set_aggregate(1, aggregate(1, [HOST]))
        store.set_instances(HOST, frozenset([A]))
        found = another().changes({})
        assert {one.report.host: one.claims for one in found.nodes} == {HOST: (made,), OTHER: ()}
        assert found.seen == {node(): NOW, node(OTHER): NOW}
        assert found.services == (ServiceFacts(HOST, disabled=True),)
        assert found.aggregates == (aggregate(1, [HOST]),)
        assert found.instances == {HOST: frozenset([A])}

    def test_then_only_what_is_new(self, store, another):
        ready(store, HOST, OTHER, THIRD)
        reader = another()
        known = {one.report.node_uuid: one.generation for one in reader.changes({}).nodes}
        place(store, claim(A, node()))
        remove(store, THIRD)
        found = reader.changes(known)
        assert [one.report.host for one in found.nodes] == [HOST]
        assert found.gone == (node(THIRD),)
        known = {node(): found.nodes[0].generation, node(OTHER): known[node(OTHER)]}
        last = reader.changes(known)
        assert (last.nodes, last.gone) == ((), ())

    def test_a_heartbeat_is_told_although_nothing_changed(self, store, another):
        ready(store)
        reader = another()
        known = {node(): reader.changes({}).nodes[0].generation}
        ready(store, now_s=NOW + 10)
        found = reader.changes(known)
        assert (found.nodes, found.seen) == ((), {node(): NOW + 10})

    @each_afresh(
        'change',
        {
            'commit': lambda store: place(store, claim(C, node())),
            'released in a placement': lambda store: place(store, releases=[(A, node())]),
            'moved': lambda store: place(store, claim(A, node(OTHER))),
            'confirm': lambda store: store.confirm([A], [node()]),
            'release': lambda store: store.release([(A, node())]),
            'expire': lambda store: store.expire(NOW),
            'report': lambda store: ready(store, vcpus=9),
            'report that confirms': lambda store: ready(store, instances=frozenset([A])),
        },
    )
    def test_every_change_of_a_node_is_seen_by_others(self, store, another, change):
        ready(store, HOST, OTHER)
        place(store, claim(A, node(), expires_s=NOW))
        reader = another()
        known = {one.report.node_uuid: one for one in reader.changes({}).nodes}
        change(store)
        news = reader.changes({uuid: one.generation for uuid, one in known.items()}).nodes
        assert node() in [one.report.node_uuid for one in news]
        known |= {one.report.node_uuid: one for one in news}
        assert known == {one.report.node_uuid: one for one in another().changes({}).nodes}

    @each_afresh(
        'name, change',
        {
            'service': ('services', lambda store: store.set_service(ServiceFacts(HOST, True))),
            'aggregate': (
                'aggregates',
                lambda store: store.set_aggregate(1, aggregate(1, [OTHER])),
            ),
            'aggregate gone': ('aggregates', lambda store: store.set_aggregate(1, None)),
            'instances': ('instances', lambda store: store.set_instances(HOST, frozenset([B]))),
        },
    )
    def test_every_change_of_a_small_table_is_seen_by_others(self, store, another, name, change):
        store.set_service(ServiceFacts(HOST))
        store.set_aggregate(1, aggregate(1, [HOST]))
        store.set_instances(HOST, frozenset([A]))
        reader = another()
        reader.changes({})
        change(store)
        assert getattr(reader.changes({}), name) == getattr(another().changes({}), name)

    def test_heads(self, store, another):
        assert store.heads() == {}
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        ready(store, OTHER, now_s=NOW + 10)
        assert another().heads() == {
            node(): (generation(store), NOW),
            node(OTHER): (generation(store, OTHER), NOW + 10),
        }

    def test_a_read_of_some_nodes(self, store, another):
        ready(store, HOST, OTHER)
        made = claim(A, node())
        place(store, made)
        store.set_service(ServiceFacts(HOST))
        reader = another()
        found = reader.read_nodes([node(), node('nowhere')])
        assert [one.claims for one in found.nodes] == [(made,)]
        assert (found.gone, found.services) == ((node('nowhere'),), (ServiceFacts(HOST),))
        assert reader.read_nodes([]).nodes == reader.read_nodes([]).gone == ()


BATTERY = (ChangeFeed,)
