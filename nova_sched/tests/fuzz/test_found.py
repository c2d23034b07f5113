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
"""What spoiled messages have found: each case once was an error without a type, or took all
memory."""

import json

import pytest

from nova_sched import errors
from nova_sched.objects import object_io
from nova_sched.tests.fuzz import run, seeds
from nova_sched.tests.fuzz.mutation import versioned
from nova_sched.tests.fuzz.world import World

DATA = object_io.DATA
FLAVOR = versioned('Flavor', {'vcpus': 1, 'memory_mb': 64, 'extra_specs': {}})
SOUND = {one.name: json.loads(one.text) for one in seeds.seeds()}
HUGE = {'vcpus': 10**9, 'ram': 10**9, 'disk': 0}


@pytest.fixture(scope='module')
def world():
    made = World()
    yield made
    made.close()


@pytest.fixture
def judge(world):
    """Send a message; say what became of it, and fail where it was not as documented."""
    with run.listening() as heard:
        yield lambda door, given: _judged(world, heard, door, given)


def _judged(world, heard, door, given):
    tally, given = run.Tally(), run.with_real_ids(json.dumps(given), world.known)
    found = run.Judge(world, tally, heard).send(door, given, 'case')
    assert tally.faults == {}
    return found


def sound(name, **arguments):
    """A sound message with some of its arguments changed."""
    given = json.loads(json.dumps(SOUND[name]))
    given['message']['args'] |= arguments
    return given


def template(properties, **sections):
    servers = {'a': {'type': 'OS::Nova::Server', 'properties': properties}}
    return {'heat_template_version': '2021-04-16', 'resources': servers, **sections}


def pinned(**flavor):
    return template({'flavor': {**HUGE, 'extra_specs': {'hw:cpu_policy': 'dedicated'}, **flavor}})


def spec(name, change):
    """The RequestSpec of a recorded call, changed."""
    made = json.loads(json.dumps(SOUND[f'dry_run {name}']['message']['args']['spec_obj']))
    change(made[DATA])
    return made


def empty_topology(data):
    data['numa_topology'][DATA] = {}


def half_of_a_character(data):
    data['pci_requests'][DATA]['requests'][0][DATA]['alias_name'] = 'half \ud800'


def compared_with_a_word(data):
    data['flavor'][DATA]['extra_specs'] = {'capabilities:hypervisor_version': '>= x'}


@pytest.mark.parametrize('method', ['validate', 'create', 'update'])
@pytest.mark.parametrize(
    'arguments, where',
    [
        pytest.param({'template': template({'flavor': FLAVOR})}, 'template', id='in the template'),
        pytest.param({'parameters': {'size': FLAVOR}}, 'parameters.size', id='as a parameter'),
        pytest.param(
            {'parameters': {'size': {'a': [FLAVOR]}}}, 'parameters.size.a', id='in a parameter'
        ),
        pytest.param({'flavors': {'tiny': FLAVOR}}, 'flavors.tiny', id='as a flavor'),
        pytest.param(
            {'images': {'cirros': {'properties': FLAVOR}}}, 'images.cirros', id='in an image'
        ),
        pytest.param({'images': FLAVOR}, 'images', id='for all images'),
        pytest.param(
            {'flavors': {'tiny': {'vcpus': float('nan')}}}, 'flavors.tiny', id='no number'
        ),
        pytest.param(
            {'flavors': {'tiny': {'vcpus': 10**30}}}, 'flavors.tiny', id='a number of 100 bits'
        ),
    ],
)
def test_what_is_not_plain_in_a_template(judge, method, arguments, where):
    refused = judge(seeds.RPC, sound(f'{method} server', **arguments))
    assert isinstance(refused, errors.InvalidRequest)
    assert where in refused.where


@pytest.mark.parametrize('method', ['validate', 'create', 'update'])
@pytest.mark.parametrize(
    'given',
    [
        pytest.param(pinned(), id='dedicated'),
        pytest.param(pinned(extra_specs={'hw:numa_nodes': '1'}), id='a cell'),
        pytest.param(pinned(extra_specs={'hw:numa_nodes': '1000000000'}), id='as many cells'),
        pytest.param(pinned(extra_specs={'hw:mem_page_size': 'large'}), id='pages'),
        pytest.param(
            pinned(extra_specs={'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^0'}),
            id='a mask',
        ),
    ],
)
def test_a_billion_cpus(judge, method, given):
    """It took seven seconds and all memory."""
    refused = judge(seeds.RPC, sound(f'{method} server', template=given, parameters={}))
    assert isinstance(refused, errors.InvalidRequest)
    assert 'at most 4096' in str(refused) or 'not within 1 and 128' in str(refused)


def test_a_billion_cpus_without_cells(judge):
    """Nova takes such a flavor; there is no host for it."""
    given = sound('validate server', template=pinned(extra_specs={}), parameters={})
    assert judge(seeds.RPC, given)['members'][0]['vcpus'] == 10**9


def test_a_billion_cpus_by_http(judge):
    given = json.loads(json.dumps(SOUND['POST /v1/groups/validate']))
    given.pop('raw', None)
    given |= {'media': 'application/json', 'body': {'template': pinned()}}
    found = judge(seeds.REST, given)
    assert (found['status'], 'at most 4096' in found['text']) == (400, True)


def test_a_body_deeper_than_a_message_can_be(judge):
    deep = '[' * 900 + ']' * 900
    given = json.loads(json.dumps(SOUND['POST /v1/groups/validate']))
    given |= {'media': 'application/json', 'raw': f'{{"template": {{"parameters": {deep}}}}}'}
    assert judge(seeds.REST, given)['status'] == 400


def test_an_object_in_a_body(judge):
    given = json.loads(json.dumps(SOUND['POST /v1/groups/validate']))
    given.pop('raw', None)
    given |= {'media': 'application/json', 'body': {'template': template({'flavor': FLAVOR})}}
    assert judge(seeds.REST, given)['status'] == 400


@pytest.mark.parametrize(
    'name, arguments, kind',
    [
        pytest.param(
            'agent resize numa-implicit',
            {'spec_obj': spec('numa-implicit', empty_topology)},
            errors.FieldNotSet,
            id='cells that are not set',
        ),
        pytest.param(
            'agent resize pci-alias',
            {'spec_obj': spec('pci-alias', half_of_a_character)},
            errors.InvalidRequest,
            id='an alias that is not text',
        ),
        pytest.param(
            'object-ComputeNode-plain',
            {'stats': versioned('ComputeNode', {'supported_hv_specs': [versioned('HVSpec', {})]})},
            errors.BadReport,
            id='a node of next to nothing',
        ),
        pytest.param('ping', {'more': 1}, errors.InvalidRequest, id='one argument more'),
        pytest.param(
            'catalogue catalogue_changed', {'x': 1}, errors.InvalidRequest, id='and more news'
        ),
    ],
)
def test_a_message(judge, name, arguments, kind):
    (door,) = {one.door for one in seeds.seeds() if one.name == name}
    assert isinstance(judge(door, sound(name, **arguments)), kind)


def test_a_supported_instance_without_its_words(judge):
    given = sound('object-ComputeNode-plain')
    given['message']['args']['stats'][DATA]['supported_hv_specs'] = [
        versioned('HVSpec', {'arch': 'x86_64'})
    ]
    assert isinstance(judge(seeds.RPC, given), errors.FieldNotSet)


def test_why_a_host_does_not_fit_by_a_rule_that_cannot_say(judge):
    """An extra spec that makes no sense is no failure of the rule."""
    given = sound('why_not small', spec_obj=spec('boot-1', compared_with_a_word))
    (node,) = judge(seeds.RPC, given)['nodes']
    (told,) = [one for one in node['rules'] if one['verdict'] == 'fails']
    assert 'x is not a number' in told['why']


def test_an_error_of_a_long_key_is_short(judge):
    refused = judge(
        seeds.RPC, sound('create server', template=template({'flavor': 'x', 'y' * 70_000: 1}))
    )
    assert isinstance(refused, errors.TemplateError)
    assert len(str(refused)) < 1500
