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

"""What every object can do."""

import copy
import datetime

import pytest
from oslo_versionedobjects import exception as ovo_exception

from nova_sched import errors, objects

SOME = '7a9f961e-91b7-5eec-ba67-426d5c717816'


def test_unset_is_not_null():
    spec = objects.RequestSpec(availability_zone=None)
    assert 'availability_zone' in spec
    assert spec.availability_zone is None
    assert 'project_id' not in spec
    with pytest.raises(NotImplementedError, match='project_id: it is not set'):
        spec.project_id  # noqa: B018


def test_an_unset_field_is_not_written():
    data = objects.to_primitive(objects.RequestSpec(availability_zone=None))['nova_object.data']
    assert data == {'availability_zone': None}


def test_a_field_can_be_unset():
    spec = objects.RequestSpec(num_instances=3)
    del spec.num_instances
    assert 'num_instances' not in spec


def test_what_is_no_field_is_no_attribute():
    with pytest.raises(AttributeError, match='no attribute colour'):
        objects.Flavor().colour  # noqa: B018
    assert 'colour' not in objects.Flavor()
    assert not hasattr(objects.Flavor(), 'colour')


def test_a_value_is_coerced_when_it_is_set():
    flavor = objects.Flavor(memory_mb='512')
    assert flavor.memory_mb == 512
    with pytest.raises(ValueError, match='invalid literal'):
        flavor.memory_mb = 'lots'


def test_a_read_only_field_is_set_once():
    node = objects.ComputeNode(uuid=SOME)
    node.uuid = SOME
    with pytest.raises(ovo_exception.ReadOnlyFieldError):
        node.uuid = SOME.replace('7', '8')


def test_a_change_inside_is_a_change():
    spec = objects.RequestSpec(flavor=objects.Flavor(vcpus=1))
    spec.obj_reset_changes(recursive=True)
    assert spec.obj_what_changed() == set()
    assert 'nova_object.changes' not in objects.to_primitive(spec)
    spec.flavor.vcpus = 2
    assert spec.obj_what_changed() == {'flavor'}
    assert objects.to_primitive(spec)['nova_object.changes'] == ['flavor']


@pytest.mark.parametrize(
    'original',
    [
        pytest.param(
            lambda: objects.RequestSpec(ignore_hosts=['a'], flavor=objects.Flavor(vcpus=1)),
            id='nested',
        ),
        pytest.param(
            lambda: objects.AggregateList(objects=[objects.Aggregate(name='a')]), id='list'
        ),
        pytest.param(lambda: objects.NUMACell(cpuset={1}, siblings=[{1, 2}]), id='sets'),
        pytest.param(lambda: objects.Flavor(extra_specs={'a': 'b'}), id='dict'),
    ],
)
def test_a_clone_is_equal_and_apart(original):
    original = original()
    clone = original.obj_clone()
    assert objects.to_primitive(clone) == objects.to_primitive(original)
    for name in clone.fields:
        if name in clone and isinstance(getattr(clone, name), (list, set, dict)):
            assert getattr(clone, name) is not getattr(original, name)


def test_a_clone_keeps_the_context_itself():
    context = object()
    assert copy.deepcopy(objects.Flavor(context))._context is context


def test_defaults_are_each_objects_own():
    one, other = objects.RequestGroup(), objects.RequestGroup()
    one.resources['VCPU'] = 1
    assert other.resources == {}
    assert one.use_same_provider is True


def test_defaults_of_what_is_read_are_each_objects_own():
    primitive = objects.to_primitive(objects.RequestGroup())
    primitive['nova_object.data'] = {}
    one, other = objects.from_primitive([primitive, primitive])
    one.required_traits.add('X')
    assert other.required_traits == set()


@pytest.mark.parametrize(
    'moment',
    [
        pytest.param(datetime.datetime(2026, 1, 1, 12, 0, 0, 999999), id='no zone is UTC'),  # noqa: DTZ001
        pytest.param(
            datetime.datetime(
                2026, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))
            ),
            id='another zone',
        ),
    ],
)
def test_a_moment_is_written_in_whole_seconds_of_utc(moment):
    written = objects.to_primitive(objects.Service(last_seen_up=moment))
    assert written['nova_object.data'] == {'last_seen_up': '2026-01-01T12:00:00Z'}


def test_a_set_is_written_in_order():
    written = objects.to_primitive(objects.NUMACell(cpuset={64, 3, 70}))
    assert written['nova_object.data'] == {'cpuset': [3, 64, 70]}


def test_what_is_written_shares_nothing_with_the_object():
    flavor = objects.Flavor(extra_specs={'a': 'b'}, projects=['p'])
    data = objects.to_primitive(flavor)['nova_object.data']
    data['extra_specs']['c'] = 'd'
    data['projects'].append('q')
    assert (flavor.extra_specs, flavor.projects) == ({'a': 'b'}, ['p'])


def test_what_is_read_shares_nothing_with_the_message():
    primitive = objects.to_primitive(objects.Flavor(extra_specs={'a': 'b'}, projects=['p']))
    flavor = objects.from_primitive(primitive)
    primitive['nova_object.data']['extra_specs']['c'] = 'd'
    primitive['nova_object.data']['projects'].append('q')
    assert (flavor.extra_specs, flavor.projects) == ({'a': 'b'}, ['p'])


def test_an_object_can_be_read_as_a_dict_where_nova_allows_it():
    flavor = objects.Flavor(vcpus=2, memory_mb=512)
    assert flavor['vcpus'] == 2
    assert dict(flavor.items()) == {'vcpus': 2, 'memory_mb': 512}
    assert flavor.get('swap', 7) == 7


def test_a_list_is_a_sequence():
    nodes = objects.ComputeNodeList(objects=[objects.ComputeNode(host=host) for host in 'abc'])
    assert [node.host for node in nodes] == ['a', 'b', 'c']
    assert [node.host for node in nodes[1:]] == ['b', 'c']
    assert len(objects.ComputeNodeList()) == 0
    assert nodes[0] in nodes


def test_obj_from_primitive_reads_one_object():
    context = object()
    flavor = objects.Flavor.obj_from_primitive(
        objects.to_primitive(objects.Flavor(vcpus=2)), context
    )
    assert (flavor.vcpus, flavor._context) == (2, context)
    with pytest.raises(errors.MalformedObject):
        objects.Flavor.obj_from_primitive({'vcpus': 2})


def test_a_cell_never_shows_its_passwords():
    cell = objects.CellMapping(
        uuid=SOME, transport_url='rabbit://u:secret@h', database_connection='x://u:secret@h'
    )
    where = objects.Destination(cell=cell)
    assert SOME in repr(cell)
    assert 'secret' not in f'{cell!r} {where!r}'
