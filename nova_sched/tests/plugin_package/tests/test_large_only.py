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
"""LargeOnlyFilter: who is kept off, and what is said of it."""

import numpy as np
import pytest

from acme_rules.large_only import LargeOnlyFilter
from nova_sched.tests.builders import aggregate, host, hosts, request, spec
from nova_sched.tests.options import settings

LARGE = aggregate(1, ['host-0'], smallest_instance_mb='4096')
OPTION = 'filter_scheduler.smallest_instance_mb'


@pytest.mark.parametrize(
    'asked, default, kept',
    [
        pytest.param(4096, 0, [True, True], id='just large enough'),
        pytest.param(4095, 0, [False, True], id='too small for host-0'),
        pytest.param(4096, 8192, [True, False], id='its aggregate goes before the option'),
    ],
)
def test_large_only(asked, default, kept):
    with settings({OPTION: default}):
        mask = LargeOnlyFilter().mask(hosts(2, aggregates=[LARGE]), request(memory_mb=asked))
    assert mask.tolist() == kept


def test_nobody_asks():
    assert LargeOnlyFilter().mask(hosts(2), request(memory_mb=1)) is True


def test_what_the_mask_depends_on():
    rule, before = LargeOnlyFilter(), LargeOnlyFilter().depends_on(request(memory_mb=512))
    assert rule.depends_on(request(memory_mb=512, vcpus=8)) == before
    assert rule.depends_on(request(memory_mb=1024)) != before
    with settings({OPTION: 1}):
        assert rule.depends_on(request(memory_mb=512)) != before


def test_why():
    said = LargeOnlyFilter().why(hosts(2, aggregates=[LARGE]), request(memory_mb=512), np.array([0]))
    assert said == '512 MiB of memory asked, the least that a host takes is 4096'


def test_on_one_host_state():
    assert not LargeOnlyFilter().host_passes(host(aggregates=[LARGE]), spec(memory_mb=512))
