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
"""Compute services that a rebalance closes in Nova."""

import pytest

from nova_sched.extensions.optimize.moves.host_closings import REASON
from nova_sched.extensions.optimize.nova_moves import ServiceSwitch
from nova_sched.tests.fake_nova import client_of, served
from nova_sched.tests.rows import each_afresh

FIRST, SECOND = f'{REASON} x until 2030', f'{REASON} y until 2031'


@pytest.fixture
def fake():
    with served() as made:
        made.services = {'cmp1': ['enabled', None]}
        yield made


@each_afresh(
    'before, after',
    {
        'enabled': (['enabled', None], ['disabled', FIRST]),
        'closed before': (['disabled', SECOND], ['disabled', FIRST]),
        'by an operator': (['disabled', 'broken'], ['disabled', 'broken']),
        'without a reason': (['disabled', None], ['disabled', None]),
    },
)
def test_closed(fake, before, after):
    fake.services['cmp1'] = before
    assert ServiceSwitch(client_of(fake)).close('cmp1', FIRST)
    assert fake.services['cmp1'] == after


@each_afresh(
    'before, reason, after',
    {
        'closed': (['disabled', FIRST], FIRST, ['enabled', None]),
        'for any reason': (['disabled', FIRST], None, ['enabled', None]),
        'closed again': (['disabled', SECOND], FIRST, ['disabled', SECOND]),
        'by an operator': (['disabled', 'broken'], None, ['disabled', 'broken']),
        'enabled': (['enabled', None], FIRST, ['enabled', None]),
    },
)
def test_opened(fake, before, reason, after):
    fake.services['cmp1'] = before
    ServiceSwitch(client_of(fake)).open('cmp1', reason)
    assert fake.services['cmp1'] == after


@each_afresh(
    'host, broken', {'there is none': ('cmp9', None), 'not allowed': ('cmp1', (403, 'not you'))}
)
def test_what_nova_refuses_is_logged_once(fake, caplog, host, broken):
    caplog.set_level('INFO')
    fake.broken['PUT'] = broken
    switch = ServiceSwitch(client_of(fake))
    assert switch.close(host, FIRST)
    switch.close(host, FIRST)
    assert switch.open(host, None)
    assert caplog.text.count(f'Host {host} cannot be closed or opened') == 1
    assert fake.services['cmp1'] == ['enabled', None]
    fake.broken.clear()
    fake.services[host] = ['enabled', None]
    switch.close(host, FIRST)
    assert fake.services[host] == ['disabled', FIRST]
    assert caplog.text.count(f'Host {host} can be closed or opened again') == 1


@each_afresh('method', {'GET': 'GET', 'PUT': 'PUT', 'the cell': None})
def test_what_nova_does_not_answer_is_left_for_later(fake, caplog, method):
    caplog.set_level('INFO')
    switch = ServiceSwitch(client_of(fake))

    def break_it(service):
        fake.services['cmp1'] = service if method else None
        fake.broken[method] = 503, 'away'

    break_it(['enabled', None])
    assert [switch.close('cmp1', FIRST) for _ in range(2)] == [False, False]
    break_it(['disabled', FIRST])
    assert not switch.open('cmp1', FIRST)
    assert caplog.text.count('Host cmp1 cannot be closed or opened') == 1
    fake.broken.clear()
    fake.services['cmp1'] = ['disabled', FIRST]
    assert switch.open('cmp1', FIRST)
    assert fake.services['cmp1'] == ['enabled', None]
    assert caplog.text.count('Host cmp1 can be closed or opened again') == 1
