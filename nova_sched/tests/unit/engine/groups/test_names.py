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
"""Names in a template that no host knows."""

import pytest

from nova_sched import errors
from nova_sched.groups.definition import Image, MemberFlavor
from nova_sched.tests.builders import aggregate
from nova_sched.tests.unit.engine.groups.group_cloud import SOURCE, cloud, definition, members

KNOWN = frozenset(['CUSTOM_LIQUID_COOLING', 'HW_CPU_X86_AVX2'])


@pytest.fixture
def two():
    """Hosts h0 and h1 with the KNOWN traits, in the zone az-east."""
    with cloud(2) as made:
        for number in range(2):
            made.join(number, traits=KNOWN)
        zone = aggregate(1, ['h0', 'h1'], availability_zone='az-east')
        made.scheduler.call(made.scheduler.state_sync.set_aggregates, [zone])
        yield made


def flavor(**specs):
    named = {key.replace('__', ':'): value for key, value in specs.items()}
    return MemberFlavor(1, 512, 1, extra_specs=named)


def one(**words):
    return definition(members('web', **words))


UNKNOWN = [
    pytest.param(
        {'availability_zone': 'az-eats'},
        'web.availability_zone',
        'there is no availability zone az-eats; did you mean az-east?',
        id='a zone',
    ),
    pytest.param(
        {'availability_zone': 'moon'},
        'web.availability_zone',
        'there is no availability zone moon',
        id='a zone like no other',
    ),
    pytest.param(
        {'flavor': flavor(trait__HW_CPU_X86_AVX='required')},
        'web.flavor.extra_specs.trait:HW_CPU_X86_AVX',
        'no host has the trait HW_CPU_X86_AVX; did you mean HW_CPU_X86_AVX2?',
        id='a standard trait',
    ),
    pytest.param(
        {'flavor': flavor(trait1__CUSTOM_LIQUID_COOLIN='required')},
        'web.flavor.extra_specs.trait1:CUSTOM_LIQUID_COOLIN',
        'no host has the trait CUSTOM_LIQUID_COOLIN; did you mean CUSTOM_LIQUID_COOLING?',
        id='a custom trait with a letter missing',
    ),
    pytest.param(
        {'flavor': flavor(trait__CUSTOM_LIQUID='required')},
        'web.flavor.extra_specs.trait:CUSTOM_LIQUID',
        'no host has the trait CUSTOM_LIQUID',
        id='a guess tells no custom trait',
    ),
    pytest.param(
        {'image': Image(properties={'trait:CUSTOM_X': 'required'})},
        'web.image.properties.trait:CUSTOM_X',
        'no host has the trait CUSTOM_X',
        id='a trait of an image',
    ),
]


@pytest.mark.parametrize('words, where, why', UNKNOWN)
def test_an_unknown_name_is_an_error(two, words, where, why):
    for dry_run in (False, True):
        with pytest.raises(errors.TemplateError) as refused:
            two.create(one(**words), dry_run=dry_run)
        assert refused.value.args == (where, None, None, why)
        assert str(refused.value) == f'Template, {where}: {why}'
    assert (two.store.claims(), two.groups.list()) == ([], [])
    group = two.create(one())
    with pytest.raises(errors.TemplateError):
        two.groups.update(group.uuid, one(**words), SOURCE)
    assert two.groups.show(group.uuid).generation == 1


@pytest.mark.parametrize(
    'words',
    [
        pytest.param({'availability_zone': 'az-east'}, id='a zone'),
        pytest.param({'availability_zone': None}, id='no zone'),
        pytest.param({'flavor': flavor(trait__HW_CPU_X86_AVX2='required')}, id='a trait'),
    ],
)
def test_known_names(two, words):
    assert two.create(one(**words)).warnings == ()


def test_a_forbidden_trait_that_no_host_has_is_a_warning(two):
    closed = flavor(trait__CUSTOM_LIQUID_COOLIN='forbidden')
    wanted = (
        'web.flavor.extra_specs.trait:CUSTOM_LIQUID_COOLIN: no host has the trait '
        'CUSTOM_LIQUID_COOLIN; did you mean CUSTOM_LIQUID_COOLING?'
    )
    group = two.create(one(flavor=closed))
    assert group.warnings == two.groups.show(group.uuid).warnings == (wanted,)


def test_members_that_stay_are_not_checked_again(two):
    """The last host with the trait may have left since."""
    asked = flavor(trait__HW_CPU_X86_AVX2='required')
    found = members('web', flavor=asked)
    group = two.create(definition(found))
    two.build(group, 'web', found=found['web'])
    for number in range(2):
        two.join(number, traits=frozenset())
    two.groups.update(group.uuid, definition(found | members('db')), SOURCE)
    with pytest.raises(errors.TemplateError):
        two.groups.update(group.uuid, definition(members('web', 'new', flavor=asked)), SOURCE)


def test_the_default_zone_and_a_cloud_without_hosts():
    with cloud(1) as made:
        assert made.create(one(availability_zone='nova')).status == 'planned'
    with cloud(0) as made, pytest.raises(errors.GroupRefused):
        made.create(one(availability_zone='moon'))
