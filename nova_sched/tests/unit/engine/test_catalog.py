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
"""The catalogue: what names and paths of a configuration become."""

import pytest

from nova_sched import errors
from nova_sched.engine import catalog
from nova_sched.engine.decide import survivors
from nova_sched.filters.compute import ComputeFilter
from nova_sched.filters.foreign import ForeignFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.tests import rules
from nova_sched.tests.builders import hosts, request
from nova_sched.tests.packages import install
from nova_sched.tests.rows import each, table
from nova_sched.weighers.cpu import CPUWeigher
from nova_sched.weighers.foreign import ForeignWeigher
from nova_sched.weighers.ram import RAMWeigher


class OutOfTreeFilter:
    """A filter as it is written for Nova."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host == 'host-1'


class OutOfTreeWeigher:
    """A weigher as it is written for Nova."""

    def weight_multiplier(self, host_state):
        return 1.0

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [float(one.obj.host == 'host-1') for one in weighed_obj_list]


class PickyFilter:
    """A filter that cannot be made."""

    def __init__(self):
        raise RuntimeError('no such rack')


NUMBER = 1


def numbers():
    """A list, but of no classes."""
    return [NUMBER]


def everything():
    """As Nova's own `all_filters`: a function that lists classes."""
    return [OutOfTreeFilter]


PLUGINS = __name__
NOVA = 'nova.scheduler'
ALWAYS = (
    'Understood RequestedZone RequestedAggregates TenantAggregates IsolatedAggregates '
    'ImageTypeSupport ImageMetadata RequiredTraits DisabledCompute ExclusiveDomain '
    'ResourceCapacity ChildProviders'.split()
)


def kinds(found):
    return [type(one) for one in found]


def test_every_rule_is_known_by_its_name():
    assert catalog.known('nova_sched.filters') == {
        name: one for name, one in rules.FILTERS.items() if name not in ALWAYS
    }
    assert catalog.known('nova_sched.weighers') == rules.WEIGHERS


def test_what_is_always_on():
    assert [one.name for one in catalog.always()] == ALWAYS


@table(
    'enabled, available, found',
    {
        'none': ([], [catalog.ALL_FILTERS], []),
        'in order': (
            ['RamFilter', 'ComputeFilter'],
            [catalog.ALL_FILTERS],
            [RamFilter, ComputeFilter],
        ),
        'ours are there anyway': (['RamFilter'], [], [RamFilter]),
        "Nova's paths mean ours": (
            ['RamFilter', 'ComputeFilter'],
            [
                f'{NOVA}.filters.ram_filter.RamFilter',
                f'{NOVA}.filters.compute_filter.ComputeFilter',
            ],
            [RamFilter, ComputeFilter],
        ),
        'a class by its path': (
            ['OutOfTreeFilter', 'RamFilter'],
            [catalog.ALL_FILTERS, f'{PLUGINS}.OutOfTreeFilter'],
            [ForeignFilter, RamFilter],
        ),
        'a list by its path': (['OutOfTreeFilter'], [f'{PLUGINS}.everything'], [ForeignFilter]),
    },
)
def test_filters(enabled, available, found):
    made = catalog.filters(enabled, available)
    assert kinds(made) == found
    assert [one.name for one in made] == enabled


@table(
    'paths, found',
    {
        'none': ([], []),
        "Nova's path means ours": ([f'{NOVA}.weights.ram.RAMWeigher'], [RAMWeigher]),
        'names, in order': (['CPUWeigher', 'RAMWeigher'], [CPUWeigher, RAMWeigher]),
        'our own path': (['nova_sched.weighers.ram.RAMWeigher'], [RAMWeigher]),
        'one by its path': (
            [f'{PLUGINS}.OutOfTreeWeigher', 'RAMWeigher'],
            [ForeignWeigher, RAMWeigher],
        ),
        'named twice, counted once': (
            ['RAMWeigher', f'{NOVA}.weights.ram.RAMWeigher'],
            [RAMWeigher],
        ),
        'all': ([catalog.ALL_WEIGHERS], list(rules.WEIGHERS.values())),
    },
)
def test_weighers(paths, found):
    made = catalog.weighers(paths)
    assert sorted(kinds(made), key=str) == sorted(found, key=str)
    assert catalog.ALL_WEIGHERS in paths or kinds(made) == found


@table(
    'load, option, words, known',
    {
        'a filter of no such name': (
            lambda: catalog.filters(['RamFilter', 'RamFiltre', 'Cpus']),
            'enabled_filters',
            'no filter is named RamFiltre (did you mean RamFilter?), Cpus',
            rules.FILTERS.keys() - ALWAYS,
        ),
        'a filter from nowhere': (
            lambda: catalog.filters([], ['no.such.module.Filter']),
            'available_filters',
            'no.such.module.Filter cannot be loaded',
            rules.FILTERS.keys() - ALWAYS,
        ),
        'what others bring is known too': (
            lambda: catalog.filters(['Mine'], [f'{PLUGINS}.OutOfTreeFilter']),
            'enabled_filters',
            'no filter is named Mine',
            {'OutOfTreeFilter', 'RamFilter'},
        ),
        'a weigher that the module lacks': (
            lambda: catalog.weighers([f'{PLUGINS}.NoSuchWeigher']),
            'weight_classes',
            'NoSuchWeigher cannot be loaded',
            rules.WEIGHERS,
        ),
        'a misspelt name': (
            lambda: catalog.weighers(['RamWeigher']),
            'weight_classes',
            'RamWeigher cannot be loaded',
            rules.WEIGHERS,
        ),
        'a path that Nova has not, nor we': (
            lambda: catalog.weighers([f'{NOVA}.weights.ram.RamWeigher']),
            'weight_classes',
            'RamWeigher cannot be loaded',
            rules.WEIGHERS,
        ),
    },
)
def test_what_is_unknown_is_told_with_what_is_known(load, option, words, known):
    with pytest.raises(errors.UnknownRule) as refused:
        load()
    assert option in refused.value.where
    assert words in refused.value.why
    assert known
    assert [name for name in known if name not in refused.value.why] == []


@table(
    'name, words',
    {
        'it raises when it is made': ('PickyFilter', 'PickyFilter cannot be made: no such rack'),
        'a function that lists no classes': ('numbers', 'numbers cannot be loaded: '),
        'neither class nor function': ('NUMBER', 'NUMBER cannot be loaded: '),
    },
)
@each('load', [lambda name: catalog.filters([name], [f'{PLUGINS}.{name}']),
                                  lambda name: catalog.weighers([f'{PLUGINS}.{name}'])],
                         ids=['filters', 'weighers'])  # fmt: skip
def test_what_is_no_rule_is_refused(load, name, words):
    with pytest.raises(errors.UnknownRule) as refused:
        load(name)
    assert words in refused.value.why


def test_a_package_is_found_as_soon_as_it_is_installed(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    before = catalog.known('nova_sched.filters')
    source = (
        'class LateFilter:\n    def host_passes(self, host_state, '
        'spec_obj):\n        return True\n'
    )
    install(
        tmp_path, 'late_rules', source, nova_sched__filters={'LateFilter': 'late_rules:LateFilter'}
    )
    assert catalog.known('nova_sched.filters').keys() - before == {'LateFilter'}
    assert [one.name for one in catalog.filters(['LateFilter', 'RamFilter'])] == [
        'LateFilter',
        'RamFilter',
    ]


def test_a_broken_package_is_told_and_left_out(monkeypatch, tmp_path, caplog):
    monkeypatch.syspath_prepend(tmp_path)
    before = catalog.known('nova_sched.filters')
    install(
        tmp_path,
        'broken_rules',
        '1 / 0',
        nova_sched__filters={'BrokenFilter': 'broken_rules:BrokenFilter'},
    )
    assert catalog.known('nova_sched.filters') == before
    assert 'Plug-in BrokenFilter of nova_sched.filters cannot be loaded' in caplog.text


def test_an_adopted_rule_takes_part():
    chain = catalog.Rules((), catalog.filters(['OutOfTreeFilter'], [f'{PLUGINS}.everything']), ())
    candidates = survivors(chain, hosts(3), request())
    assert candidates.rows().tolist() == [1]
    assert candidates.steps == (('OutOfTreeFilter', 3, 1),)
