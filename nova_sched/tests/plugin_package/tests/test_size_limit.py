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
"""SizeLimitFilter: who is kept off, and what is said of it."""

import numpy as np
import pytest

from acme_rules.size_limit import SizeLimitFilter
from nova_sched.tests.builders import aggregate, host, hosts, request, spec
from nova_sched.tests.options import settings

SMALL = aggregate(1, ['host-0'], largest_instance_mb='4096')
OPTION = 'filter_scheduler.largest_instance_mb'


@pytest.mark.parametrize(
    'asked, default, kept',
    [
        pytest.param(4096, 0, [True, True], id='just small enough'),
        pytest.param(4097, 0, [False, True], id='too large for host-0'),
        pytest.param(4096, 2048, [True, False], id='its aggregate goes before the option'),
    ],
)
def test_size_limit(asked, default, kept):
    with settings({OPTION: default}):
        mask = SizeLimitFilter().mask(hosts(2, aggregates=[SMALL]), request(memory_mb=asked))
    assert mask.tolist() == kept


def test_no_limit_anywhere():
    assert SizeLimitFilter().mask(hosts(2), request(memory_mb=999_999)) is True


def test_what_the_mask_depends_on():
    rule, asked = SizeLimitFilter(), request(memory_mb=512)
    before = rule.depends_on(asked)
    assert rule.depends_on(request(memory_mb=512, vcpus=8)) == before
    assert rule.depends_on(request(memory_mb=1024)) != before
    with settings({OPTION: 1}):
        assert rule.depends_on(asked) != before


def test_why():
    said = SizeLimitFilter().why(
        hosts(2, aggregates=[SMALL]), request(memory_mb=8192), np.array([0])
    )
    assert said == '8192 MiB of memory asked, the most that a host takes is 4096'


def test_on_one_host_state():
    rule, small = SizeLimitFilter(), host(aggregates=[SMALL])
    assert rule.host_passes(small, spec(memory_mb=4096))
    assert not rule.host_passes(small, spec(memory_mb=4097))
