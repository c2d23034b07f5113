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
"""Compute services that a rebalance closes."""

import pytest

from nova_sched import errors
from nova_sched.cloud.service_switch import ServiceSwitch
from nova_sched.tests.fake_nova import client_of, served


@pytest.fixture
def fake():
    with served() as made:
        made.services = {'cmp1': ['enabled', None], 'cmp2': ['disabled', None]}
        yield made


def test_a_service_is_disabled_and_enabled(fake):
    switch = ServiceSwitch(client_of(fake))
    assert switch.disabled_reason('cmp1') is None
    switch.set('cmp1', 'closed')
    assert switch.disabled_reason('cmp1') == 'closed'
    switch.set('cmp1', None)
    assert switch.disabled_reason('cmp1') is None


def test_one_that_is_disabled_without_a_reason(fake):
    assert ServiceSwitch(client_of(fake)).disabled_reason('cmp2') == ''


@pytest.mark.parametrize(
    'host, broken',
    [
        pytest.param('cmp9', None, id='there is none'),
        pytest.param('cmp1', (403, 'not you'), id='not allowed'),
    ],
)
def test_what_nova_refuses_is_logged(fake, caplog, host, broken):
    fake.broken = dict.fromkeys(('GET', 'PUT'), broken)
    switch = ServiceSwitch(client_of(fake))
    assert switch.disabled_reason(host) == ''
    switch.set(host, 'closed')
    assert caplog.text.count(f'Host {host} cannot be closed or opened') == 2
    assert fake.services['cmp1'] == ['enabled', None]


def test_nova_is_away(fake):
    fake.broken['GET'] = 503, 'away'
    switch = ServiceSwitch(client_of(fake))
    with pytest.raises(errors.NovaUnavailable):
        switch.disabled_reason('cmp1')
    with pytest.raises(errors.NovaUnavailable):
        switch.set('cmp1', 'closed')
