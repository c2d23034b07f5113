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
"""Every recorded answer of Nova's filters: equal, through both faces."""

import collections
import json
import types

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.filters.extra_specs import matches
from nova_sched.objects import ImageMetaProps
from nova_sched.tests import builders
from nova_sched.tests.options import settings
from nova_sched.tests.reference import (
    golden,
    is_refused,
    nine_hosts,
    nova_states,
    request_of,
    scenario,
)
from nova_sched.tests.rows import each
from nova_sched.tests.rules import FILTERS

CASES = golden('filter-cases')['cases']
MATRIX = golden('filter-matrix')
TRUTH = golden('extra-specs-match')['rows']

# How many recorded answers there are: a lost case would be a silent one.
COUNTS = {'cases': 156, 'matrix': 42 * 22 * 9, 'truth': 684}

# What Nova answers with a traceback, by what is wrong. The extra spec makes no sense:
# InvalidRequest names it. The host's value is not a number: then it is not the number that was
# asked for, and the hosts after it are judged as if it were not there.
NO_SENSE = {'= abc': 'not a number', '<or>': 'no word'}


def named(rows, name):
    return [row for row in rows if row['filter'] == name]


def test_every_filter_of_nova_is_here():
    assert set(MATRIX['metadata']) <= set(FILTERS)
    assert {case['filter'] for case in CASES} <= set(MATRIX['metadata'])


def test_no_case_is_lost():
    cells = sum(len(MATRIX['hosts']) for rules in MATRIX['matrix'].values() for _ in rules)
    assert {'cases': len(CASES), 'matrix': cells, 'truth': len(TRUTH)} == COUNTS


# Small cases.


def spec_words(case):
    """The words of the builders for the spec of a case; hints are lists, as the API makes them."""
    given = dict(case['spec'])
    plain = ('extra_specs', 'image', 'image_id', 'flavor_name', 'project_id', 'group')
    words = {name: given[name] for name in plain if name in given}
    words['image_properties'] = ImageMetaProps.from_dict(
        given.get('image_properties', {})
    ).set_fields()
    words['hints'] = {
        name: value if isinstance(value, list) else [value]
        for name, value in given.get('hints', {}).items()
    }
    return {**words, 'instance_uuid': given.get('instance', 'me')}


def aggregates(case):
    """The aggregates of the host of a case: recorded is their metadata."""
    host = case['host'].get('host', 'host-0')
    made = case['host'].get('aggregates', ())
    return [builders.aggregate(number, [host], **metadata) for number, metadata in enumerate(made)]


def nova_state(case):
    """The host of a case as a Nova-like host state."""
    given = {**case['host'], 'aggregates': aggregates(case)}
    if 'instances' in given:
        given['instances'] = dict.fromkeys(given['instances'])
    if 'metrics' in given:
        given['metrics'] = [types.SimpleNamespace(name=name, value=1) for name in given['metrics']]
    if 'service' in given:
        service = dict(given['service'])
        service['last_seen_up'] = builders.now() - service.pop('age', 0)
        given['service'] = service
    return builders.host(**given)


def columns(case):
    """The host of a case as a cluster of one node."""
    given = dict(case['host'])
    for own in ('aggregates', 'limits'):
        given.pop(own, None)
    service, words = given.pop('service', {}), {}
    for name, value in given.items():
        if name == 'free_ram_mb':
            words.update(memory_mb=value)
        elif name == 'supported_instances':
            words[name] = tuple(map(tuple, value))
        elif name == 'instances':
            words[name] = frozenset(value)
        elif name == 'num_io_ops':
            words['io_workload'] = value
        elif name == 'free_disk_mb':
            words['disk_gb'] = value // 1024
        elif name == 'vcpus_total':
            words['vcpus'] = value
        elif name == 'metrics':
            words['metrics'] = json.dumps([{'name': name, 'value': 1} for name in value])
        else:
            words[name] = value
    for name in ('disabled', 'forced_down'):
        words[name] = service.get(name, False)
    return builders.hosts(
        1, aggregates(case), seen_s=builders.NOW - service.get('age', 0), **words
    )


# What our error names where Nova raises.
REFUSALS = {
    'ComputeCapabilitiesFilter': 'not a number',
    'AggregateInstanceExtraSpecsFilter': 'not a number',
    'JsonFilter': 'scheduler hint query',
}


def is_about_the_value(case):
    """Whether Nova raises though the extra spec makes sense: the host's value is not a number."""
    texts = case['spec'].get('extra_specs', {}).values()
    return bool(texts) and NO_SENSE.keys().isdisjoint(texts)


def check(case):
    rule = FILTERS[case['filter']]()
    asked, seen = spec_words(case), columns(case)
    rebuild = asked['hints'].get('_nova_check_type') == ['rebuild']
    if is_refused(case['passes']) and not is_about_the_value(case):
        for ask in (
            lambda: rule.host_passes(nova_state(case), builders.spec(**asked)),
            lambda: rule.mask(seen, builders.request(**asked)),
        ):
            with pytest.raises(errors.InvalidRequest, match=REFUSALS[case['filter']]):
                ask()
        return
    passes = case['passes'] is True
    assert bool(list(rule.filter_all([nova_state(case)], builders.spec(**asked)))) is passes
    mask = (
        True if rebuild and not rule.RUN_ON_REBUILD else rule.mask(seen, builders.request(**asked))
    )
    assert bool(np.all(mask)) is passes


@each(
    'case',
    [pytest.param(case, id=f'{case["filter"]}-{number}') for number, case in enumerate(CASES)],
)
def test_case(case):
    with settings(case['options']):
        check(case)


# Every scenario on nine hosts.


@pytest.fixture
def recorded_options():
    """The options of the recording, as far as filters read them."""
    given = MATRIX['options']
    read = {
        name: given[f'[filter_scheduler] {name}'] for name in ('isolated_hosts', 'isolated_images')
    }
    metrics = given['[metrics] weight_setting'].split(', ')
    with settings(
        {f'filter_scheduler.{name}': value for name, value in read.items()}
        | {'metrics.weight_setting': metrics}
    ):
        yield


@pytest.mark.usefixtures('recorded_options')
@each('name', MATRIX['matrix'])
def test_matrix(name):
    seen, asked, states = nine_hosts(), request_of(name), nova_states()
    assert [f'{node.host}/{node.nodename}' for node in seen.nodes] == MATRIX['hosts']
    passes, masks, kept = {}, {}, {}
    for rule in MATRIX['metadata']:
        judge, recorded = FILTERS[rule](), MATRIX['matrix'][name][rule]
        passes[rule] = [recorded.get(host, recorded.get('*')) for host in MATRIX['hosts']]
        skipped = asked.is_rebuild and not judge.RUN_ON_REBUILD
        mask = True if skipped else judge.mask(seen, asked)
        masks[rule] = np.broadcast_to(mask, len(seen)).tolist()
        those = list(judge.filter_all(states, scenario(name)))
        kept[rule] = [state in those for state in states]
    assert masks == passes
    assert kept == passes


# The operators of extra specs.


@each('text', sorted({row[1] for row in TRUTH}))
def test_operators(text):
    for value, _, result in (row for row in TRUTH if row[1] == text):
        if not is_refused(result):
            assert (value, matches(value, text, 'key')) == (value, result)
        elif text in NO_SENSE:
            with pytest.raises(errors.InvalidRequest, match=NO_SENSE[text]):
                matches(value, text, 'key')
        else:
            assert (value, matches(value, text, 'key')) == (value, False)


def test_what_nova_raises_is_what_we_name():
    raised = collections.Counter(
        text if text in NO_SENSE else 'the value is not a number'
        for _, text, result in TRUTH
        if is_refused(result)
    )
    assert raised == {'= abc': 17, '<or>': 17, 'the value is not a number': 77}
