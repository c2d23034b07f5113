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
"""Options whose items read `name=ratio`."""

import pytest

from nova_sched.conf import ratios
from nova_sched.tests.options import settings


@pytest.mark.parametrize(
    'items, found, bad',
    [
        pytest.param([], (), [], id='none'),
        pytest.param(['a=1.5', 'b=-2'], (('a', 1.5), ('b', -2.0)), [], id='two'),
        pytest.param(['a=1', 'a=2'], (('a', 1.0), ('a', 2.0)), [], id='one name twice'),
        pytest.param(['a= 0.5'], (('a', 0.5),), [], id='blanks'),
        pytest.param(
            ['a', 'a=', '=1', 'b=1', 'a=x', 'a=1=2'],
            (('b', 1.0),),
            ['a', 'a=', '=1', 'a=x', 'a=1=2'],
            id='nonsense',
        ),
        pytest.param(['a=nan', 'b=inf'], (), ['a=nan', 'b=inf'], id='no numbers to reckon with'),
    ],
)
def test_ratios(caplog, items, found, bad):
    with settings({'metrics.weight_setting': items}):
        assert ratios('metrics', 'weight_setting') == found
        warning = (
            f'[metrics] weight_setting has items that do not read name=ratio: {", ".join(bad)}'
        )
        assert [record.getMessage() for record in caplog.records] == ([warning] if bad else [])
        caplog.clear()
        assert ratios('metrics', 'weight_setting') == found
        assert not caplog.records


def test_the_option_is_read_each_time():
    with settings({'filter_scheduler.image_props_weight_setting': ['a=1']}):
        assert ratios('filter_scheduler', 'image_props_weight_setting') == (('a', 1.0),)
    assert ratios('filter_scheduler', 'image_props_weight_setting') == ()
