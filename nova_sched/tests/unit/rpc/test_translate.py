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
"""Every recorded call as the requests that the engine gets, and back."""

import dataclasses

import pytest

from nova_sched import errors, objects
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.rpc import translate
from nova_sched.state.request import Request, RequestedDestination
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.reference import REFERENCE, wire
from nova_sched.tests.rows import each

CALLS = sorted(
    path.stem.removeprefix('select_destinations-')
    for path in (REFERENCE / 'wire').glob('select_destinations-*.json')
)
OLD = [name for name in CALLS if '.rpc-' in name]
# What the tests below compare by themselves, or what no field of the wire holds as it is.
DERIVED = frozenset(
    'resources fallback_vcpus groups group_policy same_subtree required_traits forbidden_traits '
    'root_required root_forbidden sibling_threads unsupported pieces spec instance_uuid fences '
    'member_placement allocation_requests preferred_provider unheard_hosts'.split()
)
SECURE_BOOT = 'COMPUTE_SECURITY_UEFI_SECURE_BOOT'
CELL = 'f13ad15b-c3c9-56ec-b405-95600b09d7ce'


def arguments(name):
    """The arguments of a recorded call, as an endpoint gets them."""
    recorded_args = wire(f'select_destinations-{name}')['message']['args']
    return {key: objects.from_primitive(value) for key, value in recorded_args.items()}


def requests(name):
    given = arguments(name)
    spec = translate.spec(
        given.get('spec_obj'), given.get('request_spec'), given.get('filter_properties')
    )
    return translate.requests(spec, given.get('instance_uuids'))


def facts(request, *left_out):
    """A request's fields, but for these."""
    names = {field.name for field in dataclasses.fields(Request)} - {
        'spec',
        'instance_uuid',
        *left_out,
    }
    return {name: getattr(request, name) for name in names}


def data_of(value, *path):
    """Data of a primitive, and of those that it holds: without any class of ours."""
    for name in ('', *path):
        value = value.get(name) if name else value
        if value is None:
            return {}
        value = value['nova_object.data']
    return value


@each('name', [name for name in CALLS if not name.endswith('rpc-4.0')])
def test_what_the_wire_says_is_what_is_asked(name):
    given = wire(f'select_destinations-{name}')['message']['args']
    spec, flavor = data_of(given['spec_obj']), data_of(given['spec_obj'], 'flavor')
    image = data_of(given['spec_obj'], 'image')
    group = data_of(given['spec_obj'], 'instance_group')
    wanted = data_of(given['spec_obj'], 'requested_destination')
    retried = data_of(given['spec_obj'], 'retry', 'hosts').get('objects', ())
    properties = data_of(given['spec_obj'], 'image', 'properties') if image else {}
    request = requests(name)[0]
    found = facts(request, *DERIVED, 'group', 'destination', 'retry_hosts')
    assert found == {
        'vcpus': flavor['vcpus'],
        'memory_mb': flavor['memory_mb'],
        'root_gb': flavor['root_gb'],
        'ephemeral_gb': flavor['ephemeral_gb'],
        'swap_mb': flavor['swap'],
        'flavor_name': flavor['name'],
        'extra_specs': flavor['extra_specs'],
        'is_bfv': spec.get('is_bfv', False),
        'project_id': spec['project_id'],
        'user_id': spec['user_id'],
        'image_id': image.get('id'),
        'image_format': image.get('disk_format'),
        'image_properties': {key: value for key, value in properties.items() if value is not None},
        'availability_zone': spec['availability_zone'],
        'hints': spec.get('scheduler_hints') or {},
        'ignore_hosts': frozenset(spec.get('ignore_hosts') or ()),
        'force_hosts': frozenset(spec.get('force_hosts') or ()),
        'force_nodes': frozenset(spec.get('force_nodes') or ()),
    }
    assert (request.group is None) == (not group)
    if group:
        assert (request.group.uuid, request.group.policy) == (group['uuid'], group['policy'])
        assert request.group.members == set(group['members'])
        assert request.group.hosts == set(group.get('hosts') or ())
        rules = group.get('_rules') or {}
        assert request.group.max_server_per_host == int(rules.get('max_server_per_host', 1))
    assert (request.destination is None) == (not wanted)
    assert {(host, node) for host, node in request.retry_hosts} == {
        (data_of(one)['host'], data_of(one)['hypervisor_hostname']) for one in retried
    }


@pytest.mark.parametrize('name', OLD)
def test_an_old_form_asks_for_the_same(name):
    new = requests(name.partition('.rpc-')[0])
    old = requests(name)
    assert [facts(request, 'pieces') for request in old] == [
        facts(request, 'pieces') for request in new
    ]
    # The oldest form does not tell its networks; no network needs to be near, and that comes to
    # the same.
    near_nothing = [dataclasses.replace(request.pieces, physnets=None) for request in new]
    assert [dataclasses.replace(request.pieces, physnets=None) for request in old] == near_nothing


@each('name', CALLS)
def test_one_request_for_each_instance_in_order(name):
    given = wire(f'select_destinations-{name}')['message']['args']
    found = [request.instance_uuid for request in requests(name)]
    assert len(set(found)) == len(found)
    if 'instance_uuids' in given:
        assert found == given['instance_uuids']
    elif 'request_spec' in given:
        assert len(found) == given['request_spec']['num_instances']
        assert found[0] == given['request_spec']['instance_properties']['uuid']
    else:
        assert len(found) == data_of(given['spec_obj'])['num_instances']
        assert found[0] == data_of(given['spec_obj'])['instance_uuid']


@pytest.mark.parametrize(
    'name, resources',
    [
        pytest.param('boot-1', {'VCPU': 2, 'MEMORY_MB': 4096, 'DISK_GB': 20}, id='plain'),
        pytest.param(
            'boot-swap-ephemeral',
            {'VCPU': 4, 'MEMORY_MB': 8192, 'DISK_GB': 142},
            id='swap and ephemeral',
        ),
        pytest.param('boot-from-volume', {'VCPU': 2, 'MEMORY_MB': 4096}, id='no root disk'),
        pytest.param(
            'numa-2cells-hugepages-pinned',
            {'PCPU': 4, 'MEMORY_MB': 8192, 'DISK_GB': 20},
            id='dedicated CPUs',
        ),
        pytest.param(
            'numa-mixed-explicit-cells',
            {'VCPU': 2, 'PCPU': 4, 'MEMORY_MB': 6144, 'DISK_GB': 20},
            id='some dedicated CPUs',
        ),
        pytest.param(
            'extra-specs-aggregate',
            {'VCPU': 2, 'MEMORY_MB': 4096, 'DISK_GB': 20, 'CUSTOM_LICENSE': 1},
            id='a custom class',
        ),
    ],
)
def test_resources(name, resources):
    assert requests(name)[0].resources == resources


@pytest.mark.parametrize(
    'name, required, forbidden',
    [
        pytest.param('boot-1', set(), set(), id='none'),
        pytest.param(
            'extra-specs-aggregate', {'HW_CPU_X86_AVX2'}, {'CUSTOM_SLOW'}, id='extra specs'
        ),
        pytest.param(
            'image-properties', {'HW_CPU_X86_AVX', 'CUSTOM_IMG', SECURE_BOOT}, set(), id='image'
        ),
    ],
)
def test_traits(name, required, forbidden):
    request = requests(name)[0]
    assert (request.required_traits, request.forbidden_traits) == (required, forbidden)


@pytest.mark.parametrize(
    'name, destination',
    [
        pytest.param(
            'requested-destination-host', RequestedDestination(host='cmp03'), id='a host'
        ),
        pytest.param(
            'requested-destination-node',
            RequestedDestination(node='36bf0542-4c7a-5063-a54b-f814c9892517'),
            id='a node',
        ),
        pytest.param('unshelve', RequestedDestination(cell_uuid=CELL), id='a cell'),
        pytest.param(
            'resize-cross-cell',
            RequestedDestination(cell_uuid=CELL, allow_cross_cell_move=True),
            id='any cell',
        ),
        pytest.param(
            'cold-migrate-to-host', RequestedDestination('cmp04', 'cmp04', CELL), id='all of them'
        ),
    ],
)
def test_destinations(name, destination):
    assert requests(name)[0].destination == destination


@each('name', CALLS)
def test_no_recorded_call_asks_for_what_no_rule_knows(name):
    assert requests(name)[0].unsupported == ()


def test_a_device_profile():
    found = requests('accelerator')[0]
    device = ResourceGroup('device_profile_0', (('FPGA', 1),), frozenset({'CUSTOM_FPGA_X'}))
    assert found.groups == (device,)
    assert found.root_required == {'COMPUTE_ACCELERATORS'}


def with_secrets():
    """A request for a cell, with all that a conductor knows of it."""
    destination = objects.Destination(
        cell=objects.CellMapping(
            uuid=CELL,
            transport_url='rabbit://user:secret@x',
            database_connection='mysql://user:secret@x',
        )
    )
    spec = arguments('boot-1')['spec_obj']
    spec.requested_destination = destination
    return spec


def test_secrets_of_a_cell_go_no_further():
    (request,) = translate.requests(with_secrets(), [uuid_of('one')])
    assert 'secret' not in repr(request)


def test_secrets_of_a_cell_are_not_kept():
    spec = with_secrets()
    text = translate.kept_text(spec)
    assert 'secret' not in text
    assert translate.kept_spec(text).requested_destination.cell.uuid == CELL
    assert (
        'secret' in spec.requested_destination.cell.transport_url
    )  # the caller's own stays as it was


def test_a_cell_without_uuid_is_kept_without_secrets():
    spec = with_secrets()
    spec.requested_destination.cell = objects.CellMapping(transport_url='rabbit://user:secret@x')
    text = translate.kept_text(spec)
    assert 'secret' not in text
    assert not translate.kept_spec(text).requested_destination.cell.set_fields()


@each('name', CALLS)
def test_what_is_kept_asks_for_the_same(name):
    given = arguments(name)
    spec = translate.spec(
        given.get('spec_obj'), given.get('request_spec'), given.get('filter_properties')
    )
    again = translate.kept_spec(translate.kept_text(spec))
    first, second = (translate.requests(one, [uuid_of('one')])[0] for one in (spec, again))
    assert facts(first) == facts(second)


@pytest.mark.parametrize(
    'most, given, accepted',
    [
        pytest.param(3, 3, True, id='as many as allowed'),
        pytest.param(3, 4, False, id='one more'),
    ],
)
def test_the_number_of_instances_is_limited(most, given, accepted):
    spec = arguments('boot-1')['spec_obj']
    with settings({'scheduler.max_instances_per_request': most}):
        uuids = [uuid_of(str(number)) for number in range(given)]
        if accepted:
            assert len(translate.requests(spec, uuids)) == given
        else:
            with pytest.raises(errors.InvalidRequest, match='4 instances in one request; 1 to 3'):
                translate.requests(spec, uuids)


@pytest.mark.parametrize(
    'hints, accepted',
    [
        pytest.param({'n': ['x' * 255]}, True, id='as large as allowed'),
        pytest.param({'n': ['x' * 256]}, False, id='one more'),
        pytest.param({'n': ['x' * 128, 'x' * 128]}, False, id='in several values'),
        pytest.param({'n' * 129: ['x' * 64], 'm': ['x' * 63]}, False, id='in several hints'),
    ],
)
def test_the_size_of_hints_is_limited(hints, accepted):
    spec = arguments('boot-1')['spec_obj']
    spec.scheduler_hints = hints
    with settings({'scheduler.max_hints_size': 256}):
        if accepted:
            assert translate.requests(spec, [uuid_of('one')])[0].hints == hints
        else:
            with pytest.raises(
                errors.InvalidRequest, match='scheduler_hints: they have 257 characters'
            ):
                translate.requests(spec, [uuid_of('one')])


@pytest.mark.parametrize(
    'hosts, weights, found',
    [
        pytest.param([], None, {}, id='none'),
        pytest.param(
            [['a', 'n'], ('b', None)], {'a': 2}, {('a', 'n'): 2, ('b', None): 0}, id='two'
        ),
    ],
)
def test_offered_hosts(hosts, weights, found):
    assert translate.offered_hosts(hosts, weights) == found


@pytest.mark.parametrize(
    'hosts, weights',
    [
        pytest.param('a', None, id='no list'),
        pytest.param(['ab'], None, id='no pairs'),
        pytest.param([[7, None]], None, id='no name'),
        pytest.param([['a', 7]], None, id='no name of a node'),
        pytest.param([['a', None]], [1], id='no mapping'),
        pytest.param([['a', None]], {'a': 'x'}, id='no number'),
        pytest.param([['a', None]], {'a': float('nan')}, id='no finite number'),
    ],
)
def test_offered_hosts_that_make_no_sense(hosts, weights):
    with pytest.raises(errors.InvalidRequest):
        translate.offered_hosts(hosts, weights)
