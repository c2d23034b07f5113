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

"""The two dicts of RPC 4.0 mean what the object of RPC 4.3 means."""

import copy

import pytest

from nova_sched import errors, objects
from nova_sched.objects import object_io
from nova_sched.tests.unit.objects import reference

SCENARIOS = ['boot-1', 'group-anti-affinity', 'numa-2cells-hugepages-pinned', 'pci-alias', 'retry']


def legacy(scenario='boot-1'):
    """Both dicts of a recorded call."""
    arguments = reference.wire(f'select_destinations-{scenario}.rpc-4.0.json')['message']['args']
    return arguments['request_spec'], arguments['filter_properties']


def data_of(value):
    """An object as plain data, without what names, versions and change lists tell."""
    if isinstance(value, list):
        return [data_of(item) for item in value]
    if isinstance(value, dict):
        value = value.get(object_io.DATA, value)
        return {key: data_of(item) for key, item in value.items()}
    return value


def meaning(spec):
    """What a request asks for, whichever way it came."""
    data = data_of(reference.comparable(objects.to_primitive(spec)))
    group = data.pop('instance_group') or {}
    told = ('policies', 'policy', 'members', 'hosts', 'uuid')
    data['group'] = {
        key: sorted(value) if isinstance(value := group.get(key), list) else value for key in told
    }
    # The dicts have no place for these.
    for name in ('id', 'is_bfv', 'security_groups', 'request_level_params', 'network_metadata'):
        data.pop(name, None)
    data['requested_resources'] = data['requested_resources'] or None
    data.setdefault('requested_destination', None)
    return data


@pytest.mark.parametrize('hydrated', [False, True], ids=['primitives', 'objects'])
@pytest.mark.parametrize('scenario', SCENARIOS)
def test_the_dicts_mean_what_the_object_means(scenario, hydrated):
    arguments = objects.from_primitive(list(legacy(scenario))) if hydrated else legacy(scenario)
    spec = objects.from_primitive(
        reference.argument(f'select_destinations-{scenario}.rpc-4.3.json')
    )
    assert meaning(objects.RequestSpec.from_primitives(*arguments)) == meaning(spec)


def flat(value):
    """Primitives of objects as plain dicts of their fields, as the oldest conductors sent them."""
    if isinstance(value, dict):
        value = value.get(object_io.DATA, value)
        return {key: flat(item) for key, item in value.items()}
    return [flat(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize('scenario', SCENARIOS)
def test_plain_dicts_will_do_for_the_objects_inside(scenario):
    flattened = objects.RequestSpec.from_primitives(*flat(list(legacy(scenario))))
    assert meaning(flattened) == meaning(objects.RequestSpec.from_primitives(*legacy(scenario)))


def spec_with(**properties):
    request_spec, _ = legacy()
    return objects.RequestSpec.from_primitives(request_spec, properties)


@pytest.mark.parametrize(
    'properties, field, found',
    [
        pytest.param({}, 'retry', None, id='no retry'),
        pytest.param({'retry': {}}, 'retry', None, id='empty retry'),
        pytest.param({}, 'scheduler_hints', {}, id='no hints'),
        pytest.param({'scheduler_hints': None}, 'scheduler_hints', None, id='null hints'),
        pytest.param(
            {'scheduler_hints': {'a': 'x', 'b': ['y', 'z']}},
            'scheduler_hints',
            {'a': ['x'], 'b': ['y', 'z']},
            id='hints become lists',
        ),
        pytest.param({}, 'instance_group', None, id='no group'),
        pytest.param(
            {'group_updated': False, 'group_hosts': ['a']},
            'instance_group',
            None,
            id='group not updated',
        ),
        pytest.param({'force_hosts': ['a']}, 'force_hosts', ['a'], id='forced host'),
        pytest.param({'force_nodes': ['a']}, 'force_nodes', ['a'], id='forced node'),
        pytest.param({'ignore_hosts': ['a']}, 'ignore_hosts', ['a'], id='ignored host'),
        pytest.param({}, 'ignore_hosts', None, id='no ignored hosts'),
        pytest.param({}, 'requested_destination', None, id='no destination'),
        pytest.param({}, 'num_instances', 1, id='number of instances'),
    ],
)
def test_a_property_becomes_a_field(properties, field, found):
    assert getattr(spec_with(**properties), field) == found


def test_limits_are_cut_to_whole_numbers():
    limits = spec_with(limits={'memory_mb': 1536.9, 'vcpu': 16.0, 'other': 1}).limits
    assert limits.to_dict() == {'memory_mb': 1536, 'vcpu': 16}


def test_a_retry_names_hosts_and_nodes():
    retry = spec_with(
        retry={'num_attempts': 2, 'hosts': [['a', 'n1'], ['b', 'n2']], 'exc': ['x']}
    ).retry
    assert retry.num_attempts == 2
    assert [(node.host, node.hypervisor_hostname) for node in retry.hosts] == [
        ('a', 'n1'),
        ('b', 'n2'),
    ]


def test_a_group_object_goes_before_the_old_keys():
    group = objects.InstanceGroup(policy='affinity')
    spec = spec_with(instance_group=group, group_updated=True, group_policies=['anti-affinity'])
    assert spec.instance_group.policy == 'affinity'


@pytest.mark.parametrize('empty', [None, {}], ids=repr)
def test_an_absent_image(empty):
    request_spec, properties = legacy()
    spec = objects.RequestSpec.from_primitives(request_spec | {'image': empty}, properties)
    assert (spec.image is None) == (empty is None)


def test_what_the_dicts_do_not_tell_is_unset():
    spec = objects.RequestSpec.from_primitives({'instance_properties': {'uuid': None}}, {})
    assert not {'flavor', 'instance_uuid', 'project_id'} & {
        name for name in spec.fields if name in spec
    }
    assert spec.num_instances == 1


@pytest.mark.parametrize(
    'which, path, value, where',
    [
        pytest.param(0, [], 'x', 'request_spec', id='request_spec is text'),
        pytest.param(1, [], ['x'], 'filter_properties', id='filter_properties is a list'),
        pytest.param(
            0,
            ['instance_properties'],
            5,
            'request_spec.instance_properties',
            id='instance is a number',
        ),
        pytest.param(
            0, ['instance_properties', 'uuid'], 5, 'RequestSpec.instance_uuid', id='uuid'
        ),
        pytest.param(
            0, ['instance_properties', 'numa_topology'], 5, 'RequestSpec.numa_topology', id='numa'
        ),
        pytest.param(0, ['instance_type'], 'm1', 'RequestSpec.flavor', id='flavor is text'),
        pytest.param(
            0, ['instance_type'], {'vcpus': 'x'}, 'RequestSpec.flavor.vcpus', id='flavor of words'
        ),
        pytest.param(0, ['num_instances'], 'x', 'RequestSpec.num_instances', id='number'),
        pytest.param(0, ['image'], 'x', 'RequestSpec.image', id='image is text'),
        pytest.param(0, ['image', 'size'], 'x', 'ImageMeta.size', id='size of the image'),
        pytest.param(
            0, ['image', 'properties'], 'x', 'ImageMeta.properties', id='properties of the image'
        ),
        pytest.param(
            1,
            ['retry'],
            {'hosts': 5},
            'filter_properties.retry.hosts',
            id='retry hosts is a number',
        ),
        pytest.param(
            1,
            ['retry'],
            {'hosts': [['a']]},
            'filter_properties.retry.hosts',
            id='retry host without node',
        ),
        pytest.param(1, ['retry'], 5, 'RequestSpec.retry', id='retry is a number'),
        pytest.param(1, ['limits'], 5, 'RequestSpec.limits', id='limits is a number'),
        pytest.param(1, ['limits'], {'vcpu': 'x'}, 'RequestSpec.limits.vcpu', id='limit of words'),
        pytest.param(
            1,
            ['limits'],
            {'vcpu': float('nan')},
            'RequestSpec.limits.vcpu',
            id='limit is not a number',
        ),
        pytest.param(
            1, ['scheduler_hints'], 5, 'RequestSpec.scheduler_hints', id='hints is a number'
        ),
        pytest.param(
            1, ['ignore_hosts'], 'a', 'RequestSpec.ignore_hosts', id='ignored hosts is text'
        ),
        pytest.param(
            1,
            ['requested_destination'],
            'a',
            'RequestSpec.requested_destination',
            id='destination is text',
        ),
        pytest.param(1, ['instance_group'], 'a', 'RequestSpec.instance_group', id='group is text'),
    ],
)
def test_a_bad_dict_is_refused_with_its_path(which, path, value, where):
    arguments = copy.deepcopy(list(legacy()))
    if path:
        target = arguments[which]
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value
    else:
        arguments[which] = value
    with pytest.raises(errors.MalformedObject) as refused:
        objects.RequestSpec.from_primitives(*arguments)
    assert refused.value.path == where


@pytest.mark.parametrize('policies', [5, 'affinity', [{}]], ids=repr)
def test_bad_policies_of_a_group_are_refused(policies):
    with pytest.raises(errors.MalformedObject) as refused:
        spec_with(group_updated=True, group_policies=policies)
    assert refused.value.path.startswith('RequestSpec.instance_group.polic')
