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
"""The limit on requests for plans of a project."""

import pytest

from nova_sched import errors
from nova_sched.api.rate_limit import PlanRateLimit
from nova_sched.tests.unit.api.backend import TEMPLATE
from nova_sched.tests.unit.api.callers import ADMIN, RED


def test_each_project_has_a_limit_of_its_own():
    limit = PlanRateLimit('2/minute')
    for _ in range(2):
        limit.take('red')
    with pytest.raises(errors.RateLimited, match='2 per 1 minute') as refused:
        limit.take('red')
    assert 1 <= refused.value.retry_s <= 60
    limit.take('blue')
    limit.take(None)


def test_no_limit():
    limit = PlanRateLimit('')
    for _ in range(1000):
        limit.take('red')


@pytest.mark.parametrize('rate', ['often', '5/fortnight', '-1/minute'])
def test_a_rate_that_makes_no_sense(rate):
    with pytest.raises(errors.BadConfig, match='plan_rate'):
        PlanRateLimit(rate)


@pytest.mark.parametrize(
    'method, path',
    [('POST', '/v1/groups'), ('POST', '/v1/groups?dry_run=true'), ('POST', '/v1/groups/validate')],
)
def test_a_request_above_the_limit_gets_429(http, backend, monkeypatch, method, path):
    def refuse(self, project_id):
        raise errors.RateLimited('2 per 1 minute', 7)

    monkeypatch.setattr(PlanRateLimit, 'take', refuse)
    answer = http.open(path, method=method, json={'template': TEMPLATE}, headers=RED)
    (error,) = answer.json['errors']
    assert (answer.status_code, answer.headers['Retry-After']) == (429, '7')
    assert (error['code'], error['retry_s']) == ('nova_sched.rate-limited', 7)
    assert backend.calls == []
    assert (
        http.open(path, method=method, json={'template': TEMPLATE}, headers=ADMIN).status_code
        < 300
    )
