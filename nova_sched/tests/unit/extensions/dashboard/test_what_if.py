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

"""A question is read from a form, and what is easier to place follows from it."""

import json

import pytest

from nova_sched import errors
from nova_sched.extensions.dashboard import what_if
from nova_sched.tests.rows import each

FORM = {'vcpus': '2', 'ram': '512', 'disk': '0'}
SHOWN = {'name': 'm1', 'vcpus': 4, 'ram': 8192, 'disk': 40, 'properties': {'trait:A': 'required'}}


@each(
    'pasted, found',
    [
        ('', (2, 512, 0, {'b': '1'})),  # the sizes of the form
        (json.dumps(SHOWN), (4, 8192, 40, {'trait:A': 'required', 'b': '1'})),
        (json.dumps({'flavor': SHOWN}), (4, 8192, 40, {'trait:A': 'required', 'b': '1'})),
        (
            "vcpus: 4\nproperties: hw:x='1', y='2'",  # in one text
            (4, 512, 0, {'hw:x': '1', 'y': '2', 'b': '1'}),
        ),
        (
            'day: 0000-00-00\nproperties: {a: 2026-11-25}',  # dates are text
            (2, 512, 0, {'a': '2026-11-25', 'b': '1'}),
        ),
    ],
)
def test_a_form(pasted, found):
    wish = what_if.read({**FORM, 'flavor': pasted, 'extra_specs': ' b = 1 \n', 'zone': ' '})
    assert (wish.vcpus, wish.ram, wish.disk, wish.extra_specs) == found
    assert (wish.count, wish.zone) == (1, None)
    assert wish.spec().flavor.memory_mb == wish.ram


@each(
    'wrong, words',
    [
        ({'vcpus': 'two'}, "'two' is not a whole number"),
        ({'ram': '0'}, 'at least 1 vCPU'),
        ({'count': '1001'}, '1001 is not from 1 to 1000'),
        ({'extra_specs': 'x'}, "'x' is not KEY=VALUE"),
        ({'flavor': '{'}, 'flavor'),
        ({'flavor': '[1]'}, 'it is not a mapping'),
        ({'flavor': 'vcpus: !!int ""'}, 'line 1, column 8: .* int'),
        ({'flavor': '# ' + 'x' * 65536}, 'longer than 65536'),
        ({'flavor': '[' * 5000}, 'flavor'),
        ({'flavor': 'properties: {a: [1]}'}, "'a' is not text"),
        ({'flavor': 'properties: {a: &a [*a]}'}, 'named &a'),
        ({'flavor': 'vcpus: [1]'}, 'is not a whole number'),
        ({'flavor': 'vcpus: 0x' + 'f' * 90}, 'more than 64 bits'),
        ({'flavor': 'vcpus: 1' + '0' * 5000}, 'not a whole number'),
        ({'flavor': 'vcpus: -1'}, '-1 is not within 0'),
    ],
)
def test_a_form_that_is_refused(wrong, words):
    with pytest.raises(errors.InvalidRequest, match=words):
        what_if.read({**FORM, **wrong})


def test_what_is_easier():
    wish = what_if.Wish(4, 1, 0, 2, {'a': '1', 'b': '2'}, zone='z')
    told = dict(what_if.easier(wish))
    assert list(told) == [
        '1 server in place of 2',
        'any zone in place of z',
        'without a=1',
        'without b=2',
        '2 vCPUs, half of it',
    ]
    assert told['without a=1'].extra_specs == {'b': '2'}
    assert told['any zone in place of z'].zone is None
