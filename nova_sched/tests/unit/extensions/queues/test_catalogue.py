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
"""The catalogue: which queues come of flavors and special things, and what is refused."""

import dataclasses
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.extensions.queues.brokers import of_flavor
from nova_sched.extensions.queues.catalogue import (
    Catalogue,
    Queue,
    Special,
    bare_requests,
    flavor_of,
)
from nova_sched.groups.definition import MemberFlavor
from nova_sched.objects import RequestSpec
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.extensions.queues.catalogues import (
    ALIASES,
    FLAVORS,
    SPECIALS,
    catalogue,
    flavor,
)

ROW = {
    'name': 'tiny',
    'flavorid': '1',
    'vcpus': 1,
    'memory_mb': 1024,
    'root_gb': 5,
    'extra_specs': {},
    'created_s': 0.0,
}


def texts(found):
    return [str(queue) for queue in found.queues]


@table(
    'flavors, specials, queues',
    {
        'no flavors': ([], ['zone:a'], []),
        'flavors alone': (['tiny', 'large'], [], ['tiny', 'large']),
        'each with one special thing': (
            ['tiny', 'medium', 'large'],
            ['pci:gpu'],
            ['tiny', 'tiny+pci:gpu', 'medium', 'medium+pci:gpu', 'large', 'large+pci:gpu'],
        ),
        'its own device': (
            [flavor('own', pci_passthrough__alias='gpu:1')],
            ['pci:gpu', 'pci:nic'],
            ['own', 'own+pci:nic'],
        ),
        'its own resource': ([flavor('own', resources__VGPU='2')], ['resource:VGPU'], ['own']),
        'none of a resource': ([flavor('own', resources__VGPU='0')], ['resource:VGPU'], ['own']),
        'one in a group': ([flavor('own', resources1__VGPU='1')], ['resource:VGPU'], ['own']),
        'its own trait': ([flavor('own', trait__HW_A='required')], ['trait:HW_A'], ['own']),
        'a forbidden trait': ([flavor('own', trait__HW_A='forbidden')], ['trait:HW_A'], ['own']),
        'one of a group': (
            [flavor('own', resources1__VGPU='1', trait1__HW_A='required')],
            ['trait:HW_A'],
            ['own'],
        ),
        'a trait in other words': (
            [flavor('own', os__secure_boot='required')],
            ['trait:COMPUTE_SECURITY_UEFI_SECURE_BOOT'],
            ['own'],
        ),
        'NUMA cells': (
            [flavor('own', 2, hw__numa_nodes='2'), 'tiny'],
            ['zone:a'],
            ['tiny', 'tiny+zone:a'],
        ),
        'dedicated CPUs': ([flavor('own', hw__cpu_policy='dedicated')], [], []),
    },
)
def test_the_queues_of_a_catalogue(flavors, specials, queues):
    assert texts(catalogue(*flavors, specials=specials)) == queues


@table(
    'row, where',
    {
        'no name': ({'name': ''}, 'flavor name'),
        'long name': ({'name': 'x' * 256}, 'flavor name'),
        'lines in a name': ({'name': 'a\nb'}, 'flavor name'),
        'blanks around a name': ({'name': ' a'}, 'flavor name'),
        'a number for a name': ({'name': 7}, 'flavor name'),
        'no CPU': ({'vcpus': 0}, 'flavor tiny, vcpus'),
        'no number': ({'vcpus': True}, 'flavor tiny, vcpus'),
        'text for a number': ({'memory_mb': '1024'}, 'flavor tiny, memory_mb'),
        'negative': ({'root_gb': -1}, 'flavor tiny, root_gb'),
        'more than anybody has': ({'swap': 2**60}, 'flavor tiny, swap'),
        'no mapping': ({'extra_specs': ['a']}, 'flavor tiny, extra_specs'),
        'no text': ({'extra_specs': {'a': 1}}, "flavor tiny, extra spec 'a'"),
        'no such policy': (
            {'extra_specs': {'hw:cpu_policy': 'own'}},
            'flavor tiny, hw:cpu_policy',
        ),
        'no such alias': (
            {'extra_specs': {'pci_passthrough:alias': 'fpga:1'}},
            'flavor tiny, pci_passthrough:alias',
        ),
        'no amount': ({'extra_specs': {'resources:VGPU': 'x'}}, 'flavor tiny, resources'),
        'nobody knows it': (
            {'extra_specs': {'accel:device_profile': 'fpga'}},
            'flavor tiny, accel:device_profile',
        ),
        'no such version': (
            {'extra_specs': {'hw:tpm_version': '3'}},
            'flavor tiny, required_traits',
        ),
    },
)
def test_a_flavor_that_makes_no_sense_is_refused(row, where):
    with pytest.raises(errors.InvalidRequest) as refused:
        Catalogue.of(1, [{**ROW, **row}])
    assert refused.value.where == where
    assert refused.value.why


def test_two_flavors_of_one_name_are_refused():
    with pytest.raises(errors.InvalidRequest, match='flavor tiny: there are two'):
        Catalogue.of(1, [ROW, {**ROW, 'vcpus': 2}])


@table(
    'specials',
    {
        'no kind': ['gpu'],
        'unknown kind': ['rack:1'],
        'no name': ['zone:'],
        'long name': ['zone:' + 'x' * 256],
        'no trait': ['trait:Custom'],
        'no resource class': ['resource:CUSTOM-X'],
        'what every flavor has': ['resource:VCPU'],
        'what changes CPUs': ['trait:HW_CPU_HYPERTHREADING'],
        'twice': ['zone:a', 'zone: a'],
        'unknown alias': ['pci:fpga'],
    },
)
def test_a_special_thing_that_makes_no_sense_is_refused(specials):
    with pytest.raises(errors.BadConfig, match=r'\[queues\] specials'):
        catalogue('tiny', specials=specials)


def test_an_alias_that_no_extra_spec_can_name_is_refused():
    odd = {'a:b': ALIASES['gpu']}
    with pytest.raises(errors.BadConfig, match='a comma or a colon'):
        Catalogue(1, (), (Special('pci', 'a:b'),), odd)


# Names.

anything = st.text(st.characters(exclude_categories=['Cs']), min_size=1, max_size=255)


@table(
    'name, special, queue',
    {
        'readable': ('m1.small', None, 'm1.small'),
        'with a special thing': ('tiny', 'pci:gpu', 'tiny+pci:gpu'),
        'odd': ('4 GiB, cheap', None, '4-GiB-cheap~'),
        'odd, with a special thing': ('4 GiB, cheap', 'zone:a', '4-GiB-cheap~'),
        'an odd special thing': ('tiny', 'zone:the north', 'tiny+zone:the-north~'),
        'long': ('ü' * 255, 'trait:' + 'X' * 255, '-~'),
    },
)
def test_names_are_readable_where_they_can_be(name, special, queue):
    found = Queue.of(flavor(name), special and Special.parse(special)).name
    assert found.startswith(queue) if queue.endswith('~') else found == queue
    assert len(of_flavor(found)) <= 160


@given(st.lists(st.tuples(anything, st.none() | anything), min_size=2, max_size=6, unique=True))
@example([('a', 'gpu'), ('a+pci:gpu', None)])
@example([('a+pci:b', 'c'), ('a', 'b+pci:c')])
@example([('~', None), ('-~', None)])
def test_names_are_safe_short_and_different(pairs):
    found = [
        Queue.of(flavor(name), None if special is None else Special('pci', special)).name
        for name, special in pairs
    ]
    assert len(set(found)) == len(found)
    for name in found:
        assert len(name) <= 150
        assert set(name) <= set(
            'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~+:'
        )


def test_a_queue_is_found_by_its_name():
    made = catalogue('tiny', 'größe', specials=['zone:a'])
    assert [made.find(queue.name) for queue in made.queues] == list(made.queues)
    assert made.find('größe') is made.find('tiny+zone:b') is None
    assert str(made.queue('größe', Special('zone', 'a'))) == 'größe+zone:a'
    assert (
        made.queue('größe', Special('zone', 'b'))
        is made.queue('klein')
        is made.queue(None)
        is None
    )


# Requests.


def test_what_a_job_of_a_queue_asks_for():
    made = catalogue(
        flavor('gpu', 2, 512, 5, pci_passthrough__alias='gpu:1', quota__x='1'), specials=SPECIALS
    )
    asked = {str(queue).partition('+')[2]: made.request(queue) for queue in made.queues}
    bare = asked['']
    assert bare.resources == {'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 5}
    assert [one.alias_name for one in bare.pieces.requests] == ['gpu']
    assert [one.alias_name for one in asked['pci:nic'].pieces.requests] == ['gpu', 'nic']
    assert asked['resource:CUSTOM_GOLD'].resources == {**bare.resources, 'CUSTOM_GOLD': 1}
    assert asked['trait:HW_A'].required_traits == {'HW_A'}
    assert asked['zone:a'].availability_zone == 'a'
    assert (bare.availability_zone, bare.required_traits) == (None, frozenset())


def test_the_message_of_a_job():
    made = catalogue('tiny', specials=['zone:a'])
    spec = made.spec(made.queues[1], uuid_of('me'), 'project', 'user')
    assert isinstance(spec, RequestSpec)
    assert (spec.instance_uuid, spec.project_id, spec.user_id) == (
        uuid_of('me'),
        'project',
        'user',
    )
    assert (spec.flavor.name, spec.availability_zone) == ('tiny', 'a')
    assert made.spec(made.queues[0]).instance_uuid != made.spec(made.queues[0]).instance_uuid


# As plain values.


def test_a_catalogue_survives_the_way_through_json():
    made = catalogue(*FLAVORS, specials=SPECIALS, version=7)
    read = Catalogue.from_plain(json.loads(json.dumps(made.to_plain())))
    assert (read.version, read.flavors, read.specials) == (
        made.version,
        made.flavors,
        made.specials,
    )
    assert read.queues == made.queues
    assert [read.request(queue).pieces.key for queue in read.queues] == [
        made.request(queue).pieces.key for queue in made.queues
    ]


def test_who_reads_it_needs_no_aliases_in_its_configuration():
    with settings(
        {'pci.alias': [json.dumps({'name': 'gpu', 'vendor_id': '10de', 'product_id': '20b0'})]}
    ):
        plain = Catalogue.of(1, [ROW], ['pci:gpu']).to_plain()
    assert texts(Catalogue.from_plain(plain)) == ['tiny', 'tiny+pci:gpu']
    with pytest.raises(errors.BadConfig, match='no such alias'):
        Catalogue.of(1, [ROW], ['pci:gpu'])


@table(
    'change, error',
    {
        'of a later release': ({'form': 2}, errors.IncompatibleObject),
        'no version': ({'version': 'x'}, errors.MalformedObject),
        'no flavors': ({'flavors': None}, errors.MalformedObject),
        'a flavor without a name': ({'flavors': [{}]}, errors.InvalidRequest),
        'no alias': ({'aliases': {'gpu': 1}}, errors.MalformedObject),
        'no text': ({'specials': [1]}, errors.MalformedObject),
        'an alias that is not there': ({'specials': ['pci:fpga']}, errors.BadConfig),
    },
)
def test_plain_values_that_are_no_catalogue(change, error):
    plain = catalogue('tiny').to_plain() | change
    with pytest.raises(error):
        Catalogue.from_plain(plain)


@each('field', ['form', 'version', 'flavors', 'specials', 'aliases'])
def test_plain_values_that_lack_something(field):
    plain = catalogue('tiny').to_plain()
    del plain[field]
    with pytest.raises(errors.MalformedObject):
        Catalogue.from_plain(plain)


def test_the_flavor_of_a_row():
    made = flavor_of({**ROW, 'extra_specs': {'a': 'b'}})
    assert made == MemberFlavor(1, 1024, 5, extra_specs={'a': 'b'}, name='tiny')
    assert flavor_of(dataclasses.asdict(made)) == made


@table(
    'fields',
    {
        'no CPUs': {'vcpus': 0},
        'unknown alias': {'extra_specs': {'pci_passthrough:alias': 'nothing:1'}},
        'unreadable cells': {'extra_specs': {'hw:numa_nodes': 'many'}},
    },
)
def test_flavors_that_cannot_be_read_have_no_request(fields):
    """A cloud has flavors of others, and one of them must not hide the rest."""
    found = bare_requests(
        [ROW, {**ROW, 'name': 'bad', **fields}, {**ROW, 'name': 'x', 'vcpus': 3}]
    )
    assert [request.vcpus for request in found] == [1, 3]


def test_flavors_with_cells_have_a_request():
    row = {**ROW, 'vcpus': 4, 'extra_specs': {'hw:numa_nodes': '2'}}
    (found,) = bare_requests([row])
    assert len(found.pieces.guest.cells) == 2
