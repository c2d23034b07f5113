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
"""Filters that were written for Nova run among ours, unchanged."""

import numpy as np
import pytest

from nova_sched.engine.catalog import Rules
from nova_sched.engine.decide import survivors
from nova_sched.filters import Filter
from nova_sched.filters.all_hosts import AllHostsFilter
from nova_sched.filters.foreign import ForeignFilter, adopt
from nova_sched.filters.ram import RamFilter
from nova_sched.tests.builders import host, hosts, request, spec
from nova_sched.tests.rows import each


class HalfFullFilter:
    """As an operator would write it: one host state, one spec."""

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    def host_passes(self, host_state, spec_obj):
        return (
            host_state.free_ram_mb * 2 >= host_state.total_usable_ram_mb
            and spec_obj.flavor.vcpus < 8
        )


class WholeListFilter:
    """As they were written long ago: all hosts at once."""

    def filter_all(self, filter_obj_list, spec_obj):
        return (one for one in filter_obj_list if one.host != spec_obj.scheduler_hints['not'][0])


class PlainFilter:
    """Neither flag is set."""

    def host_passes(self, host_state, spec_obj):
        return 1


@each(
    'made, asked, kept',
    [
        pytest.param(HalfFullFilter, {}, [True, False, True], id='one host at a time'),
        pytest.param(HalfFullFilter, {'vcpus': 8}, [False, False, False], id='it sees the spec'),
        pytest.param(
            WholeListFilter, {'hints': {'not': ['host-0']}}, [False, True, True], id='whole list'
        ),
        pytest.param(PlainFilter, {}, [True, True, True], id='an answer that is no bool'),
    ],
)
def test_it_is_asked_about_each_host(made, asked, kept):
    rule, seen = adopt(made), hosts(memory_mb=[100, 100, 100], memory_mb_used=[50, 51, 0])
    assert rule.mask(seen, request(**asked)).tolist() == kept
    verdict = rule.judge(seen, request(**asked), np.array([2, 0]))
    assert verdict.dtype == bool
    assert verdict.tolist() == [kept[2], kept[0]]


def test_in_the_chain_it_sees_only_the_survivors():
    asked_about = []

    class Nosy:
        def host_passes(self, host_state, spec_obj):
            asked_about.append(host_state.host)
            return host_state.host != 'host-3'

    chain = Rules(always=(), filters=(RamFilter(), adopt(Nosy), AllHostsFilter()), weighers=())
    left = survivors(chain, hosts(memory_mb=[100, 600, 600, 600]), request(memory_mb=512))
    assert left.rows().tolist() == [1, 2]
    assert asked_about == ['host-1', 'host-2', 'host-3']
    assert [tuple(step) for step in left.steps] == [
        ('RamFilter', 4, 3),
        ('Nosy', 3, 2),
        ('AllHostsFilter', 2, 2),
    ]


def test_no_hosts_left():
    verdict = adopt(HalfFullFilter).judge(hosts(2), request(), np.array([], dtype=np.intp))
    assert (verdict.dtype, verdict.shape) == (bool, (0,))


def test_the_flags_and_the_name_are_its_own():
    rule = adopt(HalfFullFilter)
    assert (rule.name, rule.run_filter_once_per_request, rule.RUN_ON_REBUILD) == (
        'HalfFullFilter',
        True,
        True,
    )
    plain = adopt(PlainFilter)
    assert (plain.name, plain.run_filter_once_per_request, plain.RUN_ON_REBUILD) == (
        'PlainFilter',
        False,
        False,
    )


def test_its_own_face_stays():
    assert adopt(HalfFullFilter).host_passes(host(), spec())
    assert not adopt(HalfFullFilter).host_passes(host(free_ram_mb=1), spec())


@each('made', [RamFilter, RamFilter()], ids=['class', 'object'])
def test_ours_are_not_wrapped(made):
    rule = adopt(made)
    assert type(rule) is RamFilter
    assert not isinstance(rule, ForeignFilter)


def test_an_error_in_it_is_not_swallowed():
    class Broken:
        def host_passes(self, host_state, spec_obj):
            raise KeyError('x')

    with pytest.raises(KeyError):
        adopt(Broken).mask(hosts(1), request())


def test_a_rule_made_by_subclassing_ours():
    class Odd(Filter):
        """Rows with an odd number of vCPUs."""

        def mask(self, hosts, request):
            return hosts.vcpus_total % 2 == 1

    assert adopt(Odd).mask(hosts(vcpus=[1, 2, 3]), request()).tolist() == [True, False, True]
    assert adopt(Odd).host_passes(host(vcpus_total=5), spec())
