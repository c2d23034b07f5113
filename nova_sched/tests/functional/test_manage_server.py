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
"""nova-sched-manage server, claim create: claims by a running scheduler."""

import json
import threading

import pytest

from nova_sched.rpc import client
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.manage import runner
from nova_sched.tests.options import settings


@pytest.fixture
def hosts(daemon):
    daemon.add('a', 'b', vcpus=4)
    return daemon


@pytest.fixture
def place(hosts, tmp_path, capsys):
    """``place('--vcpus', '2')``: exit status, output, errors."""
    run = runner('server', tmp_path, capsys)
    return lambda *words: run('place', *words)


def test_servers_are_placed_and_claimed(place, hosts):
    status, out, err = place('--vcpus', '3', '--count', '2', '--format', 'json')
    assert (status, err) == (0, '')
    found = json.loads(out)
    assert sorted(row['host'] for row in found) == ['a', 'b']
    for row in found:
        (claim,) = hosts.claims.show(row['instance_uuid'])
        assert (claim.host, claim.state) == (row['host'], 'pending')


def test_a_trial_claims_nothing(place, hosts):
    before = hosts.state()
    status, out, _ = place('--vcpus', '3', '--dry-run')
    assert status == 0
    assert out.startswith('1 instance, placed.')
    assert place('--vcpus', '9', '--dry-run')[0] == 1
    assert hosts.state() == before
    status, out, err = place('--flavor', 'm1.smal')
    assert (status, out, 'm1.smal' in err) == (1, '', True)


def test_the_reasons_of_a_success(place, hosts):
    status, out, _ = place('--vcpus', '3', '--why')
    assert status == 0
    assert '| Instance ' in out
    assert '1 instance, placed.' in out
    placed = json.loads(place('--why', '--format', 'json')[1])
    assert placed[0]['why']['outcome'] == 'placed'


def test_the_reasons_of_a_refusal(place, hosts):
    status, out, err = place('--vcpus', '9')
    assert (status, out) == (1, '')
    assert 'Of 2 hosts, ResourceCapacity' in err
    assert 'nova-sched-manage explain show req-' in err
    status, out, err = place('--vcpus', '9', '--why')
    assert (status, '| ResourceCapacity |' in out) == (1, True)
    assert 'Of 2 hosts, ResourceCapacity' in err
    status, out, _ = place('--vcpus', '9', '--why', '--format', 'json')
    refusal = json.loads(out)
    assert status == 1
    assert 'Of 2 hosts, ResourceCapacity' in refusal['refused']
    assert refusal['request_id'].startswith('req-')
    assert refusal['why']['request_id'] == refusal['request_id']
    assert refusal['why']['filters'][-1]['filter'] == 'ResourceCapacity'
    assert 'why' not in json.loads(place('--vcpus', '9', '--format', 'json')[1])


def test_a_refusal_without_a_record(place, hosts):
    with settings({'explain.retention': 0}):
        status, out, err = place('--vcpus', '9', '--why')
    assert (status, out) == (1, '')
    assert 'ResourceCapacity removed the last hosts' in err
    assert 'nova-sched-manage explain show req-' in err


def test_a_claim_on_a_host(hosts, tmp_path, capsys):
    run, server = runner('claim', tmp_path, capsys, hosts.database), uuid_of('by hand')
    status, _, err = run('create', 'a', '--consumer', server, '--vcpus', '9')
    assert status == 1
    assert 'VCPU' in err
    assert hosts.claims.show(server) == []
    status, out, err = run('create', 'a', '--consumer', server, '--vcpus', '3', '--format', 'json')
    assert (status, err) == (0, '')
    (claim,) = hosts.claims.show(server)
    assert (claim.host, claim.state, claim.resources['VCPU']) == ('a', 'pending', 3)
    (row,) = json.loads(out)
    assert (row['consumer_uuid'], row['host'], row['claim_uuid']) == (server, 'a', claim.uuid)
    assert run('create', 'nowhere')[0] == 1


def test_an_answer_that_comes_too_late(hosts, place, monkeypatch):
    late = threading.Event()  # the answer comes when the command has ended
    monkeypatch.setattr(client.ExplainClient, 'dry_run', lambda self, spec: late.wait())
    status, out, err = place('--dry-run', '--timeout', '2')
    late.set()
    assert (status, out) == (1, '')
    assert 'No answer to place: it did not come within 2 s' in err
