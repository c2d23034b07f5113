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
"""IsolatedHostsFilter."""

import numpy as np
import pytest

from nova_sched.filters.isolated_hosts import IsolatedHostsFilter
from nova_sched.tests.builders import hosts, mask_of, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

IMAGES, HOSTS, RESTRICT = (
    f'filter_scheduler.{name}'
    for name in ('isolated_images', 'isolated_hosts', 'restrict_isolated_hosts_to_isolated_images')
)
MINE, OTHER = uuid_of('mine'), uuid_of('other')
SET = {IMAGES: [MINE], HOSTS: ['host-0', 'host-1', 'gone']}


@each(
    'options, image, mask',
    [
        pytest.param({}, MINE, '*', id='nothing is isolated'),
        pytest.param(SET, MINE, '110', id='an isolated image'),
        pytest.param(SET, OTHER, '001', id='another image'),
        pytest.param(SET, None, '001', id='no id'),
        pytest.param({**SET, RESTRICT: False}, MINE, '110', id='an isolated image, hosts for all'),
        pytest.param({**SET, RESTRICT: False}, OTHER, '*', id='another image, hosts for all'),
        pytest.param({HOSTS: ['host-0']}, MINE, '011', id='hosts for no image'),
        pytest.param(
            {HOSTS: ['host-0'], RESTRICT: False}, MINE, '*', id='hosts for no image, for all'
        ),
        pytest.param({IMAGES: [MINE]}, MINE, '000', id='an isolated image without hosts'),
        pytest.param({IMAGES: [MINE]}, OTHER, '*', id='another image, no hosts'),
        pytest.param(
            {IMAGES: [MINE], HOSTS: ['HOST-0']}, MINE, '000', id='names are taken to the letter'
        ),
    ],
)
def test_isolated_hosts(options, image, mask):
    with settings(options):
        assert mask_of(IsolatedHostsFilter, hosts(3), request(image_id=image)) == mask


def test_a_request_without_an_image_is_not_isolated():
    with settings(SET):
        assert mask_of(IsolatedHostsFilter, hosts(3), request(image=None)) == '001'


def test_what_the_verdict_depends_on():
    rule, seen = IsolatedHostsFilter(), set()
    for options in (SET, {**SET, RESTRICT: False}, {**SET, HOSTS: ['host-2']}):
        with settings(options):
            seen |= {rule.depends_on(request(image_id=image)) for image in (MINE, OTHER)}
            assert rule.depends_on(request(image_id=OTHER)) == rule.depends_on(request(image=None))
    assert len(seen) == 6


@each(
    'image, rows, why',
    [
        pytest.param(
            MINE, [2], 'the image is isolated, 1 host is not kept for isolated images', id='image'
        ),
        pytest.param(
            OTHER,
            [0, 1],
            'the image is not isolated, 2 hosts are kept for isolated images',
            id='hosts',
        ),
        pytest.param(
            OTHER,
            [0],
            'the image is not isolated, 1 host is kept for isolated images',
            id='one host',
        ),
    ],
)
def test_why(image, rows, why):
    with settings(SET):
        assert IsolatedHostsFilter().why(hosts(3), request(image_id=image), np.array(rows)) == why
