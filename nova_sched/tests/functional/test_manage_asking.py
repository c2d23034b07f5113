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
"""The verbs of nova-sched-manage that ask a running scheduler."""

import functools
import json

import pytest

from nova_sched import objects
from nova_sched.tests.functional.harness import primitive, spec
from nova_sched.tests.functional.manage import runner


@pytest.fixture
def run(daemon, tmp_path, capsys):
    """``run('fragmentation', 'show')``: exit status, output, errors."""
    return lambda noun, *words: runner(noun, tmp_path, capsys)(*words)


@pytest.fixture
def manage(run):
    """``manage('capacity', '--vcpus', '2')``: those of a verb of `explain`."""
    return functools.partial(run, 'explain')


@pytest.fixture
def hosts(daemon):
    """Three hosts, one of them switched off."""
    daemon.add('a', 'b', vcpus=8)
    daemon.add('c', vcpus=8)
    daemon.stats.update_service('c', objects.Service(disabled=True, disabled_reason='broken fan'))
    return daemon


def test_a_dry_run(manage, hosts):
    before = hosts.state()
    status, out, _ = manage('dry-run', '--vcpus', '2', '--format', 'json')
    assert status == 0
    found = json.loads(out)
    assert (found['outcome'], found['placed'][0]['host'] in 'ab') == ('placed', True)
    status, out, _ = manage('dry-run', '--vcpus', '9')
    assert status == 0
    assert (
        '1 instance, refused: There are not enough hosts available. Of 3 hosts, ResourceCapacity'
        in out
    )
    assert hosts.state() == before


def test_why_not(manage, hosts):
    status, out, _ = manage('why-not', 'c', '--vcpus', '2')
    assert status == 0
    assert 'Host c, disabled (broken fan)' in out
    assert 'Node c does not pass: DisabledCompute, ComputeFilter' in out
    status, out, err = manage('why-not', 'nowhere')
    assert (status, out) == (1, '')
    assert 'Host nowhere is not known' in err


def test_capacity(manage, hosts):
    status, out, _ = manage('capacity', '--vcpus', '3')
    assert status == 0
    assert out.startswith('4 more, on 2 hosts.')


def test_a_spec_from_a_file(manage, hosts, tmp_path):
    (tmp_path / 'spec.json').write_text(json.dumps(primitive(spec(vcpus=8))))
    status, out, _ = manage('capacity', '--spec', str(tmp_path / 'spec.json'), '--format', 'json')
    assert status == 0
    assert json.loads(out)['total'] == 2


def test_what_the_scheduler_refuses_is_one_sentence(manage, hosts):
    status, out, err = manage('dry-run', '--count', '0')
    assert (status, out) == (1, '')
    assert 'num_instances' in err


def test_texts_from_outside_reach_no_terminal(manage, hosts):
    odd = 'x\x1b[2J\u202e\n| forged |'
    reason = objects.Service(disabled=True, disabled_reason=odd)
    hosts.stats.update_service('c', reason)
    assert r'Host c, disabled (x\x1b[2J\u202e\n| forged |)' in manage('why-not', 'c')[1]
    for words in (['why-not', 'c'], ['dry-run', '--vcpus', '9'], ['capacity', '--zone', odd]):
        said = ''.join(map(str, manage(*words)))
        assert said.replace('\n', '').isprintable()
        assert not any(line.startswith('| forged') for line in said.splitlines())


def test_fragmentation(run, daemon):
    daemon.add('a', 'b', vcpus=8)
    status, out, _ = run('fragmentation', 'show', '--format', 'json')
    assert status == 0
    found = json.loads(out)
    assert (found['hosts'], found['empty_hosts']) == (2, 2)
    assert [zone['zone'] for zone in found['zones']] == ['nova']
    status, out, _ = run('fragmentation', 'show')
    assert status == 0
    assert '2 hosts, 2 of them without servers.' in out


@pytest.mark.parametrize(
    ('words', 'why'),
    [
        pytest.param(['--zone', 'moon'], 'Availability zone moon is not known', id='zone'),
        pytest.param(['--aggregate', '7'], 'Aggregate 7 is not known', id='aggregate'),
    ],
)
def test_places_that_are_not_there(run, words, why):
    status, out, err = run('fragmentation', 'show', *words)
    assert (status, out) == (1, '')
    assert why in err


def test_a_scheduler_whose_hosts_report_themselves_has_no_status_of_a_cloud(run):
    status, _, err = run('cloud', 'status')
    assert status == 1
    assert 'host list' in err
