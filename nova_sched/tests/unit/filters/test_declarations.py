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
"""What every filter declares to read: it reads nothing else, of hosts or of the request."""

import contextlib
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.claim import VCPU
from nova_sched.filters import Filter, RowFilter
from nova_sched.filters.child_providers import ChildProviders
from nova_sched.filters.core import CoreFilter
from nova_sched.filters.foreign import ForeignFilter
from nova_sched.filters.required_traits import RequiredTraits
from nova_sched.state.facts import EVERYTHING, LASTING, OWN_HOSTS, HostFacts, amount_of
from nova_sched.tests import options
from nova_sched.tests.builders import aggregate, cluster, hosts, put, request, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each
from nova_sched.tests.rules import FILTERS
from nova_sched.tests.unit.extensions.queues.catalogues import (
    GOLD,
    VGPU,
    catalogues,
    nodes,
    providers,
)
from nova_sched.tests.unit.filters.test_contract import REQUESTS, every_filter
from nova_sched.tests.unit.strategies import clusters, words
from nova_sched.tests.unit.traced import TracedHosts, TracedRequest

RULES = [one() for one in FILTERS.values()]
AT_WORK = {
    'filter_scheduler.isolated_hosts': ['host-0'],
    'metrics.weight_setting': ['cpu.percent=1'],
    'scheduler.enable_isolated_aggregate_filtering': True,
    'scheduler.image_metadata_prefilter': True,
    'scheduler.limit_tenants_to_placement_aggregate': True,
    'scheduler.query_placement_for_image_type_support': True,
}
TEXTS = LASTING | HostFacts.REPORTED
GROUPS = {'resources1:VGPU': '1', 'trait1:HW_A': 'required', 'resources2:CUSTOM_GOLD': '1'}
MORE = {
    **REQUESTS,
    'groups': {'extra_specs': {**GROUPS, 'group_policy': 'none'}},
    'groups apart': {'extra_specs': {**GROUPS, 'group_policy': 'isolate'}},
    'of devices': {'extra_specs': {'resources:VGPU': '1', 'trait:HW_A': 'required'}},
    'dedicated': {
        'extra_specs': {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'}
    },
    'image': {'image_properties': {'hw_disk_bus': 'virtio'}, 'is_bfv': True},
}


@pytest.fixture(scope='module', autouse=True)
def every_rule_at_work():
    """Options without which some rules read nothing."""
    with options.settings(AT_WORK):
        yield


def beyond(rule, seen, asked):
    """What the rule reads beyond what it declares: of the hosts, and of the request."""
    found = []
    rows = np.arange(len(seen))
    for ask in (rule.mask, functools.partial(rule.judge, rows=rows), None):
        traced, wanted = TracedHosts(seen), TracedRequest(asked)
        with contextlib.suppress(errors.Invalid):
            if ask is None:
                rule.depends_on(wanted)
            else:
                ask(traced, wanted)
        with contextlib.suppress(errors.Invalid):
            of_hosts, of_request = rule.host_facts_for(asked), rule.request_facts_for(seen, asked)
            found += [traced.beyond(of_hosts), wanted.beyond(of_request)]
    return set().union(*found)


def devices(**columns):
    """Two hosts, of which the first has devices below it and an aggregate."""
    groups = [aggregate(1, ['host-0'], **{'trait:HW_A': 'required', 'availability_zone': 'here'})]
    texts = [providers([2, 0], {'HW_A'}), None]
    return hosts(2, groups, providers=texts, instances=frozenset([uuid_of('me')]), **columns)


@every_filter
@each('asked', MORE)
@each('made', [hosts, devices], ids=['plain', 'devices'])
def test_a_rule_reads_what_it_declares(rule, asked, made):
    seen = made(hypervisor_version=None) if made is devices else made(2)
    assert beyond(rule, seen, request(**MORE[asked])) == set()


@settings(max_examples=cases(40))
@given(seen=clusters(), asked=words)
def test_a_rule_reads_what_it_declares_of_any_hosts(seen, asked):
    wanted = request(**asked)
    assert {rule.name: found for rule in RULES if (found := beyond(rule, seen, wanted))} == {}


@settings(max_examples=cases(30))
@given(node=nodes(), wanted=catalogues, data=st.data())
def test_a_rule_reads_what_it_declares_of_any_node(node, wanted, data):
    made = cluster(0)
    put(made, node[0])
    for queue in wanted.queues[:5]:
        asked = wanted.request(queue)
        found = {rule.name: found for rule in RULES if (found := beyond(rule, made.hosts, asked))}
        assert found == {}


@each(
    'reads, found',
    [
        pytest.param(lambda hosts, request: hosts.seen_s, HostFacts.REPORTED, id='hosts'),
        pytest.param(lambda hosts, request: request.memory_mb, 'memory_mb', id='the request'),
        pytest.param(lambda hosts, request: request.spec, None, id='the message'),
        pytest.param(lambda hosts, request: request.hint('x'), 'hints', id='a hint'),
        pytest.param(
            lambda hosts, request: request.resources[VCPU], amount_of(VCPU), id='an amount'
        ),
        pytest.param(lambda hosts, request: hosts.state(0).stats, HostFacts.REPORTED, id='stats'),
        pytest.param(
            lambda hosts, request: hosts.nodes[0].growth(request, VCPU),
            OWN_HOSTS,
            id='what a helper reads',
        ),
    ],
)
def test_a_rule_that_reads_more_is_found(reads, found):
    class Careless(CoreFilter):
        def mask(self, hosts, request):
            reads(hosts, request)
            return super().mask(hosts, request)

    assert beyond(Careless(), hosts(1, vcpus=1), request(vcpus=1, resources={VCPU: 1})) >= {found}


def test_a_rule_that_declares_nothing_may_read_everything():
    class Undeclared(RowFilter):
        def passes(self, host_state, request):
            return True

    for rule in (Undeclared(), ForeignFilter(object())):
        assert rule.host_facts_for(request()) == EVERYTHING
        assert rule.request_facts_for(hosts(1), request()) is None
        assert rule.depends_on(request()) is None
        assert rule.judges_rows


def test_every_rule_of_the_package_declares_its_request_facts():
    assert [rule.name for rule in RULES if rule.request_facts is None] == []
    assert [rule.name for rule in RULES if rule.host_facts is EVERYTHING] == [
        'ComputeCapabilitiesFilter',
        'JsonFilter',
    ]


def test_a_verdict_on_lasting_facts_depends_on_the_declared_facts():
    class Lasts(Filter):
        host_facts = LASTING
        request_facts = ('project_id', 'extra_specs', 'resource_classes')

    asked = request(project_id='a', extra_specs={'b': '1', 'a': '2'})
    same = request(project_id='a', extra_specs={'a': '2', 'b': '1'})
    found = Lasts().depends_on(asked)
    assert (hash(found), found) == (hash(Lasts().depends_on(same)), Lasts().depends_on(same))
    for other in ({'project_id': 'b'}, {'extra_specs': {}}, {'resources': {GOLD: 1}}):
        assert Lasts().depends_on(request(**{'project_id': 'a', **other})) != found


@each(
    'specs, facts',
    [
        pytest.param({}, TEXTS, id='nothing asked'),
        pytest.param({'capabilities:cpu_info:vendor': 'x'}, TEXTS, id='a text'),
        pytest.param({'ssd': 'true'}, TEXTS, id='stats at most'),
        pytest.param({'capabilities:num_instances': '<= 3'}, EVERYTHING, id='a number'),
    ],
)
def test_capabilities_read_what_extra_specs_name(specs, facts):
    rule = FILTERS['ComputeCapabilitiesFilter']()
    assert rule.host_facts_for(request(extra_specs=specs)) == facts


def test_inventories_are_read_only_if_devices_may_have_the_traits():
    rule = RequiredTraits()
    assert rule.host_facts_for(request(vcpus=1)) == LASTING
    other = request(extra_specs={'resources:VGPU': '1'})
    assert HostFacts.AMOUNTS in rule.host_facts_for(other)


def test_amounts_matter_to_child_providers_as_far_as_devices_have_the_class():
    rule, below = ChildProviders(), devices()
    plain, gpu = request(vcpus=1), request(extra_specs={'resources:VGPU': '1'})
    assert rule.request_facts_for(hosts(1), gpu) == ('groups', 'resource_classes')
    assert rule.request_facts_for(below, plain) == ('groups', 'resource_classes')
    assert amount_of(VGPU) in rule.request_facts_for(below, gpu)
    assert 'resources' not in rule.request_facts_for(below, gpu)
    assert 'resources' in rule.request_facts_for(below, request(**MORE['groups']))
