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
"""What holds for each filter of an allocation ratio that aggregates override."""

from typing import ClassVar

import numpy as np
import pytest

from nova_sched.tests.builders import aggregate, hosts, mask_of, nova_like, request, spec


class RatioBattery:
    """Tests of the filter ``rule``. The metadata ``key`` overrides its ratio.

    The hosts are ``full``, words of a report; the request wants half of one host, ``asked``.
    ``unit`` names that amount in explanations; with a ratio of 1.25, ``quarter`` is free.
    """

    rule: type
    key: str
    full: ClassVar[dict[str, int]]
    asked: ClassVar[dict[str, int]]
    unit: str
    quarter: int

    @pytest.mark.parametrize(
        'texts, mask',
        [
            pytest.param([], '00', id="the host's own ratio"),
            pytest.param(['1.5'], '10', id='a ratio for half as much again'),
            pytest.param(['1.4'], '00', id='less than is asked'),
            pytest.param(['1.4', '9'], '00', id='the smallest counts'),
            pytest.param(['9', 'much'], '00', id='no number'),
            pytest.param(['inf'], '00', id='no end'),
        ],
    )
    def test_ratio(self, texts, mask):
        groups = [
            aggregate(number, ['host-0'], **{self.key: text}) for number, text in enumerate(texts)
        ]
        seen = hosts(2, groups, **self.full)
        assert mask_of(self.rule, seen, request(**self.asked)) == mask
        one = nova_like(seen.state(0))
        assert self.rule().host_passes(one, spec(**self.asked)) is (mask[0] == '1')

    def test_why(self):
        groups = [aggregate(1, ['host-1'], **{self.key: '1.25'})]
        seen, rule, wanted = hosts(2, groups, **self.full), self.rule(), request(**self.asked)
        told = f'{self.unit} asked, the'
        assert rule.why(seen, wanted, np.array([0])) == f'{told} host has 0 free'
        both = np.array([0, 1])
        assert rule.why(seen, wanted, both) == f'{told} best host has {self.quarter} free'
        assert rule.nearest(seen, wanted, both) == 1
