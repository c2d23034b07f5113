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
"""Every call that a real Nova made, sent as it stands to a daemon with the recorded hosts."""

import pytest

from nova_sched.tests.functional.harness import at_once, error_name, outcome
from nova_sched.tests.reference import REFERENCE, wire

CALLS = sorted(path.stem for path in (REFERENCE / 'wire').glob('select_destinations-*.json'))

# What the recorded hosts cannot give, or what no rule of this release knows.
REFUSED = (
    'accelerator bandwidth extra-specs-aggregate force-nodes image-properties '
    'pci-alias-in-placement requested-destination-node'
).split()


@pytest.fixture(scope='module')
def nine(started):
    """The daemon with the recorded hosts."""
    started.add_nine()
    return started


@pytest.fixture
def nine_idle(nine):
    """The same, without the claims of other tests."""
    before = nine.table('claims')
    yield nine
    at_once(nine.claims.abort_claim, {row[1] for row in nine.table('claims') if row not in before})


@pytest.mark.parametrize('call', CALLS)
def test_every_recorded_call_is_answered_in_the_form_of_its_version(nine_idle, call):
    message, before = wire(call)['message'], nine_idle.table('claims')
    names = message['args'].get('instance_uuids') or []
    answer = outcome(nine_idle.replay, message, wire(call)['context'])
    if call.removeprefix('select_destinations-') in REFUSED:
        assert error_name(answer) == 'NoValidHost', answer
        assert nine_idle.table('claims') == before
        return
    if message['args'].get('return_objects'):
        assert {one['nova_object.version'] for selections in answer for one in selections} == {
            '1.1'
        }
        most = 3 if message['args']['return_alternates'] else 1
        assert all(1 <= len(selections) <= most for selections in answer)
    else:
        assert all(set(one) == {'host', 'nodename', 'limits'} for one in answer)
    assert len(answer) == (len(names) or num_instances(message['args']))
    assert len(nine_idle.table('claims')) == len(before) + (
        0 if is_rebuild(message) else len(names)
    )


def num_instances(arguments):
    if 'request_spec' in arguments:
        return arguments['request_spec']['num_instances']
    return arguments['spec_obj']['nova_object.data']['num_instances']


def is_rebuild(message):
    data = message['args'].get('spec_obj', {}).get('nova_object.data', {})
    return (data.get('scheduler_hints') or {}).get('_nova_check_type') == ['rebuild']


@pytest.mark.parametrize('name', ['boot-1', 'retry', 'group-anti-affinity'])
def test_every_version_of_a_call_gets_the_same_hosts(nine_idle, name):
    chosen = {}
    for version in ('4.0', '4.3', '4.4', '4.5'):  # the first two claim nothing
        message = wire(f'select_destinations-{name}.rpc-{version}')['message']
        answer = nine_idle.replay(message)
        if version == '4.5':
            picks = [selections[0]['nova_object.data'] for selections in answer]
            chosen[version] = [(one['service_host'], one['nodename']) for one in picks]
        else:
            chosen[version] = [(one['host'], one['nodename']) for one in answer]
        for uuid in message['args'].get('instance_uuids', ()):
            nine_idle.claims.abort_claim(uuid)
    assert chosen['4.0'] == chosen['4.3'] == chosen['4.4'] == chosen['4.5']
