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
"""The order of hosts for another scheduler, over HTTP."""

from nova_sched import errors
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.callers import ADMIN, RED
from nova_sched.tests.unit.api.test_policies import RANKING

SPEC = RANKING['spec']
HOSTS = [{'host': 'b', 'hypervisor_hostname': 'node b'}, {'host': 'a'}]
PATH = '/v1/external-scheduler'


def asked(http, who=ADMIN, **words):
    return http.post(PATH, json={'spec': SPEC, 'hosts': HOSTS, **words}, headers=who)


def test_the_hosts_in_order(http, ranker):
    answer = asked(http, weights={'b': 2.5, 'c': 1})
    assert (answer.status_code, answer.json) == (200, {'hosts': ['a', 'b']})
    (call,) = ranker.calls
    assert call.pop('context').user_id
    assert call == {
        'spec_obj': SPEC,
        'hosts': [('b', 'node b'), ('a', None)],
        'weights': {'b': 2.5, 'c': 1},
        'check_type': None,
    }


@each(
    'flags, check_type',
    [
        ({'rebuild': True, 'live': False}, 'rebuild'),
        ({'resize': True}, 'resize'),
        ({'live': True, 'vmware': False}, 'live_migrate'),
        ({'rebuild': False}, None),
    ],
)
def test_flags(http, ranker, flags, check_type):
    assert asked(http, **flags).status_code == 200
    assert ranker.calls[-1]['check_type'] == check_type


@each(
    'words, detail',
    [
        ({'rebuild': True, 'resize': True}, 'rebuild and resize'),
        ({'spec': {}}, 'nova_object'),
        ({'hosts': ['a']}, "'a'"),
        ({'hosts': [{}]}, "'host'"),
        ({'weights': {'a': 'x'}}, "'x'"),
        ({'rebuild': 'yes'}, "'yes'"),
    ],
)
def test_bodies_that_make_no_sense(http, ranker, words, detail):
    answer = asked(http, **words)
    assert answer.status_code == 400
    assert detail in answer.json['errors'][0]['detail']
    assert ranker.calls == []


@each(
    'refusal, status, code',
    [
        (errors.NoAnswer('rank_hosts', 'x'), 504, 'deadline'),
        (errors.Outdated('The call', 'x'), 504, 'deadline'),
        (errors.InvalidRequest('spec', 'odd'), 400, 'invalid'),
        (errors.StoreUnavailable('x'), 503, 'unavailable'),
    ],
)
def test_failures(http, ranker, refusal, status, code):
    ranker.refusal = refusal
    answer = asked(http)
    assert answer.status_code == status
    assert answer.json['errors'][0]['code'] == f'nova_sched.{code}'


def test_it_is_for_operators(http, ranker):
    assert asked(http, RED).status_code == 403
    assert ranker.calls == []
