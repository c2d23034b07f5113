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
"""The time for one template: it ends the reading, wherever that is."""

import json
import time

import pytest

from nova_sched import errors
from nova_sched.engine.groups.member_state import MemberRequests
from nova_sched.groups import template
from nova_sched.groups.definition import Definition, Member, MemberFlavor
from nova_sched.groups.template.values import Allowance

HEAD = {'heat_template_version': '2021-04-16'}
SERVER = {'type': 'OS::Nova::Server', 'properties': {'flavor': {'vcpus': 1, 'ram': 64, 'disk': 0}}}
LARGE = {**HEAD, 'resources': {f'server-{number}': SERVER for number in range(1000)}}
COPIES = {
    'repeat': {
        'for_each': {'%i%': list(range(100)), '%j%': list(range(100))},
        'template': '%i%-%j%',
    }
}
BUSY = {
    **HEAD,
    'resources': {'server': SERVER},
    'conditions': {f'c{number}': {'equals': [COPIES, COPIES]} for number in range(50)},
}


@pytest.mark.parametrize(
    'text',
    [
        pytest.param(LARGE, id='a mapping'),
        pytest.param(json.dumps(LARGE), id='JSON'),
        pytest.param(BUSY, id='little text, much work'),
    ],
)
def test_a_template_that_takes_too_long(text):
    with pytest.raises(errors.TemplateError, match=r'takes longer than 0\.005 s'):
        template.read(text, allowance=Allowance(0.005))


def test_requests_that_take_too_long():
    """Each member is another one, and has CPUs that are told apart."""
    dedicated = {'hw:cpu_policy': 'dedicated'}
    members = {
        path: Member(path, MemberFlavor(4096, 64 + number, extra_specs=dedicated))
        for number in range(1000)
        for path in [f'm{number}']
    }
    with pytest.raises(errors.TemplateError) as refused:
        MemberRequests.of(Definition(members), Allowance(0.05))
    assert refused.value.where != 'm0'


def test_time_in_which_nothing_is_done_does_not_count():
    allowance = Allowance(0.05)
    time.sleep(0.1)
    assert allowance.check() is None


def test_what_a_template_may_be_is_read_in_time():
    """The largest group that there may be, as long as it says nothing that takes ages."""
    assert len(template.read(json.dumps(LARGE)).members) == 1000
