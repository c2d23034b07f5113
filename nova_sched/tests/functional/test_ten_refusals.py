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
"""Ten requests that no host can take: the caller is told the rule that is the true cause, in
words that a tenant may read, and the operator the whole."""

import re

import pytest

from nova_sched import errors
from nova_sched.cmd.manage import explain, tables
from nova_sched.tests.functional import ten_refusals
from nova_sched.tests.functional.harness import running
from nova_sched.tests.options import settings


@pytest.fixture(scope='module')
def cloud(bus_url, tmp_path_factory):
    with (
        settings(ten_refusals.SETTINGS),
        running(bus_url, tmp_path_factory.mktemp('ten')) as daemon,
    ):
        ten_refusals.build(daemon)
        yield daemon


@pytest.mark.parametrize('refusal', ten_refusals.TEN, ids=lambda refusal: refusal.cause)
def test_the_true_cause_is_named(cloud, refusal):
    error, record = ten_refusals.refuse(cloud, refusal)
    assert isinstance(error, errors.NoValidHost)
    assert error.reason.startswith(
        f'There are not enough hosts available. {refusal.rule} removed the last hosts: '
    ), error.reason
    assert error.reason.endswith(f'Operators find the details under {record["request_id"]}.')
    cause = error.reason.removesuffix(f'{record["request_id"]}.')
    hosts = [host for names in ten_refusals.ZONES.values() for host in names]
    names = '|'.join([*hosts, *ten_refusals.ZONES])
    assert not re.search(rf'\d|\b({names})\b', cause)
    # The operator gets counts, amounts and names.
    assert record['reason'].startswith('There are not enough hosts available. Of 8 hosts, ')
    removed = sum(one['seen'] - one['left'] for one in record['filters'][:-1])
    assert f'{refusal.rule} removed the last {8 - removed}: {refusal.why}.' in record['reason']
    assert [host for host in hosts if host in record['reason']] == []
    assert (record['filters'][-1]['filter'], record['filters'][-1]['why']) == (
        refusal.rule,
        refusal.why,
    )
    assert set(record['filters'][-1]['removed']) <= set(hosts)
    record['time'] = tables.moment(record['time'])
    assert ' '.join(record['reason'].split()) in ' '.join(explain.decisions_page([record]).split())


def test_there_are_ten_causes():
    assert len({(refusal.rule, refusal.why) for refusal in ten_refusals.TEN}) == 10
