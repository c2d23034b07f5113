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
"""nova-sched-manage explain: what is read from the database, what is asked for, and how it is
printed."""

import io
import json

import pytest

from nova_sched import errors, objects
from nova_sched.cmd.manage import arguments, commands, explain
from nova_sched.conf import CONF
from nova_sched.db.decision_log import SqlDecisionLog
from nova_sched.tests.builders import NOW, now
from nova_sched.tests.reference import wire
from nova_sched.tests.rows import each
from nova_sched.tests.test_layers import PACKAGE
from nova_sched.tests.unit.cmd.manage.test_commands import cells, keys

WEIGHT = {
    'weigher': 'RAMWeigher',
    'raw': 512.0,
    'normalised': 0.5,
    'multiplier': 2.0,
    'weight': 1.0,
}
REFUSED = {
    'request_id': 'req-1',
    'time': NOW,
    'outcome': 'refused',
    'asked': {
        'instances': ['aaaa'],
        'flavor': 'large',
        'resources': {'MEMORY_MB': 16384, 'VCPU': 2},
        'extra_specs': {'trait:HW_A': 'required'},
        'image': None,
        'zone': 'west',
        'policy': 'affinity',
        'project_id': None,
        'user_id': None,
    },
    'reason': 'Of 9 hosts, B removed the last 8: too small.',
    'hosts': 9,
    'instances': 1,
    'found': 0,
    'filters': [
        {
            'filter': 'A',
            'seen': 9,
            'left': 8,
            'why': '',
            'removed': ['i'],
            'nearest': 'i',
            'nearest_why': '',
        },
        {
            'filter': 'B',
            'seen': 8,
            'left': 0,
            'why': 'too small',
            'removed': list('abcdefgh'),
            'nearest': 'c',
            'nearest_why': 'a little too small',
        },
    ],
    'placed': [],
}
PLACED = {
    'outcome': 'placed',
    'reason': None,
    'hosts': 2,
    'instances': 2,
    'found': 2,
    'filters': REFUSED['filters'][:1],
    'placed': [
        {
            'instance_uuid': 'aaaa',
            'host': 'a',
            'node': 'a',
            'weight': 1.0,
            'weights': [WEIGHT],
            'alternates': [
                {'host': 'b', 'node': 'b2', 'weight': None, 'weights': [{**WEIGHT, 'raw': None}]}
            ],
        },
        {'instance_uuid': 'bbbb', 'host': 'b', 'node': 'b2', 'alternates': []},
    ],
}


@pytest.fixture
def trails(database):
    return SqlDecisionLog(database)


# show


def test_a_refusal_in_words(manage, trails, an_hour_ahead):
    """Its age is by the clock of the database."""
    trails.write([{**REFUSED, 'time': trails.now_s() - 300}])
    status, out, _ = manage('explain show req-1')
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == 'Request     req-1'
    assert lines[1].startswith('Decided     20')
    assert lines[1].endswith(', 5 min ago')
    assert lines[2:5] == [
        'Asked for   2 VCPU, 16384 MEMORY_MB (flavor large)',
        'Project     -',
        'With        trait:HW_A=required, zone west, server group with affinity',
    ]
    assert lines[6:8] == ['1 instance, refused: Of 9 hosts, B removed the last 8: too small.', '']
    assert cells(out) == [
        ['Filter', 'Seen', 'Left', 'Why it removed hosts', 'Removed'],
        ['A', '9', '8', '', 'i'],
        ['B', '8', '0', 'too small; nearest is c', 'a'],
        ['', '', '', '', 'b'],
        ['', '', '', '', 'c'],
        ['', '', '', '', '5 more'],
    ]
    status, out, err = manage('explain show req-9')
    assert (status, out) == (1, '')
    assert 'A decision about request req-9 is not known' in err


def test_all_decisions_as_json(manage, trails):
    trails.write([{**REFUSED, 'time': NOW + 1}, REFUSED])
    shown = json.loads(manage('explain show req-1 --format json').out)
    assert shown == [
        {**REFUSED, 'time': '2027-01-15T08:00:00+00:00'},
        {**REFUSED, 'time': '2027-01-15T08:00:01+00:00'},
    ]
    page = (PACKAGE.parent / 'doc/source/command-line.rst').read_text()
    own = {'trait:HW_A', 'MEMORY_MB', 'VCPU'}
    names = keys(shown) | keys(PLACED)
    assert [name for name in sorted(names - own) if f'``{name}``' not in page] == []


# How it is printed.


def test_a_decision_that_placed():
    text = explain.decision_page(PLACED)
    assert text.splitlines()[0] == '2 instances, placed. 2 hosts in all.'
    assert cells(text)[2:] == [
        ['Instance', 'Host', 'Weight', 'Alternates'],
        ['aaaa', 'a', '1', 'b / b2'],
        ['bbbb', 'b / b2', '-', '-'],
        ['Weigher (raw -> 0..1 x multiplier)', 'a', 'b / b2'],
        ['RAMWeigher', '512 -> 0.5 x 2 = 1', '- -> 0.5 x 2 = 1'],
        ['sum', '1', '-'],
    ]
    unweighed = {**PLACED, 'placed': PLACED['placed'][1:], 'filters': []}
    assert cells(explain.decision_page(unweighed))[-1] == ['bbbb', 'b / b2', '-', '-']


SERVICE = {'disabled': True, 'disabled_reason': 'fan', 'forced_down': True, 'seen_s': 0.0}
RULES = [
    {'rule': 'A', 'verdict': 'passes', 'why': ''},
    {'rule': 'B', 'verdict': 'refuses', 'why': 'too small'},
    {'rule': 'C', 'verdict': 'refuses', 'why': ''},
    {'rule': 'D', 'verdict': 'fails', 'why': 'no such thing'},
]


def test_a_host_that_does_not_pass():
    node = {'node': 'a', 'passes': False, 'rules': RULES}
    text = explain.host_page({'host': 'a', 'service': SERVICE, 'nodes': [node]})
    assert text.splitlines()[:3] == [
        'Host a, disabled, forced down (fan)',
        '',
        'Node a does not pass: B, C, D',
    ]
    assert cells(text)[1:] == [
        ['B', 'refuses', 'too small'],
        ['C', 'refuses', ''],
        ['D', 'fails', 'no such thing'],
    ]
    assert text.splitlines()[-1] == 'Passes: A'


@each(
    'rank, columns',
    [
        pytest.param(2, ['a', 'b'], id='beside the best one'),
        pytest.param(1, ['a'], id='the best one itself'),
    ],
)
def test_a_host_that_passes(rank, columns):
    best = {'host': 'b', 'node': 'b', 'weight': 3.0, 'weights': [WEIGHT]}
    node = {'node': 'a', 'passes': True, 'rules': RULES[:1], 'rank': rank, 'of': 7, 'weight': 1.0,
            'weights': [WEIGHT], 'best': best}  # fmt: skip
    usual = {'disabled': False, 'disabled_reason': None, 'forced_down': False, 'seen_s': 0.0}
    text = explain.host_page({'host': 'a', 'service': usual, 'nodes': [node]})
    assert text.splitlines()[0] == 'Host a, enabled'
    assert f'Node a passes: place {rank} of 7 nodes that pass' in text
    assert cells(text)[0] == ['Weigher (raw -> 0..1 x multiplier)', *columns]


def test_room():
    room = {
        'total': 7,
        'at_least': True,
        'hosts': 2,
        'zones': {'west': 3, 'east': 4},
        'aggregates': [{'id': 5, 'name': 'fast', 'total': 3}],
    }
    text = explain.capacity_page(room)
    assert text.splitlines()[0] == 'at least 7 more, on 2 hosts.'
    assert cells(text) == [
        ['Zone', 'Fit'], ['east', '4'], ['west', '3'], ['Aggregate', 'Fit'], ['fast (5)', '3'],
    ]  # fmt: skip
    none = {'total': 0, 'at_least': False, 'hosts': 0, 'zones': {}, 'aggregates': []}
    assert explain.capacity_page(none) == '0 more, on 0 hosts.'


# What is asked for.


ASKED = {'flavor': 'm1', 'project_id': 'p', 'user_id': 'u'}


def decision(name, ago_s, outcome='refused', **asked):
    return {
        'request_id': f'req-{name}',
        'time': now() - ago_s,
        'outcome': outcome,
        'reason': 'no room' if outcome == 'refused' else None,
        'instances': 2,
        'found': 0,
        'asked': {**ASKED, **asked},
    }


@each(
    'more, names',
    [
        ('', ['new', 'placed', 'other', 'old']),  # newest first
        ('--refused', ['new', 'other', 'old']),
        ('--since 1h', ['new', 'placed']),
        ('--project q', ['other']),
        ('--limit 1', ['new']),
        ('--refused --since 3h --project p --limit 5', ['new', 'old']),
    ],
)
def test_decisions_are_listed(manage, decisions, more, names):
    listed = json.loads(manage('explain list --format json', *more.split()).out)
    assert [row['request_id'] for row in listed] == [f'req-{name}' for name in names]
    assert {'outcome', 'reason', 'flavor', 'project_id', 'time'} <= set(listed[0])


@pytest.fixture
def decisions(trails):
    trails.write(
        [
            decision('old', 9000),
            decision('new', 10),
            decision('placed', 100, outcome='placed'),
            decision('other', 8000, project_id='q'),
        ]
    )


def spec_of(words):
    args = commands.parser().parse_args(['explain', 'dry-run', *words.split()])
    return arguments.request_spec(args, CONF)


def test_a_spec_from_options():
    made = spec_of(
        '--vcpus 2 --ram 1024 --disk 10 --ephemeral 5 --swap 512 --flavor m1 --zone west '
        '--project p --extra-spec trait:HW_A=required --extra-spec a=b=c --image-property '
        'hw_architecture=aarch64 --hint different_host=x --hint different_host=y --force-host a '
        '--ignore-host b --ignore-host c --count 3'
    )
    flavor = made.flavor
    assert (flavor.vcpus, flavor.memory_mb) == (2, 1024)
    assert (flavor.root_gb, flavor.ephemeral_gb, flavor.swap) == (10, 5, 512)
    assert (flavor.name, flavor.extra_specs) == ('m1', {'trait:HW_A': 'required', 'a': 'b=c'})
    assert made.image.properties.hw_architecture == 'aarch64'
    assert (made.availability_zone, made.project_id, made.num_instances) == ('west', 'p', 3)
    assert made.scheduler_hints == {'different_host': ['x', 'y']}
    assert (made.force_hosts, made.ignore_hosts) == (['a'], ['b', 'c'])


def test_the_least_that_can_be_asked_for():
    made, flavor = spec_of(''), spec_of('').flavor
    assert (flavor.vcpus, flavor.memory_mb, flavor.root_gb) == (1, 512, 0)
    assert made.num_instances == 1
    assert spec_of('').instance_uuid != made.instance_uuid


RECORDED = wire('select_destinations-boot-1')['message']['args']['spec_obj']


def test_a_spec_from_a_file(tmp_path, monkeypatch):
    file = tmp_path / 'spec.json'
    file.write_text(json.dumps(RECORDED))
    monkeypatch.setattr('sys.stdin', io.StringIO(json.dumps(RECORDED)))
    for path in (file, '-'):
        made = spec_of(f'--spec {path}')
        assert isinstance(made, objects.RequestSpec)
        assert objects.to_primitive(made) == objects.to_primitive(objects.from_primitive(RECORDED))


@each(
    'content, why',
    [
        (None, 'No such file'),
        ('{', 'line 1'),
        ('{}', 'no RequestSpec'),
        (json.dumps(objects.to_primitive(objects.Service())), 'no RequestSpec'),
        (json.dumps({**RECORDED, 'nova_object.data': 7}), 'RequestSpec'),
    ],
)
def test_a_file_that_holds_no_spec(tmp_path, content, why):
    if content is not None:
        (tmp_path / 'x').write_text(content)
    with pytest.raises(errors.Invalid, match=why):
        spec_of(f'--spec {tmp_path}/x')


def test_an_image_property_of_no_such_value(manage):
    status, out, err = manage('explain dry-run --image-property hw_architecture=z80')
    assert (status, out) == (1, '')
    assert 'hw_architecture' in err


def test_no_answer(manage):
    config = '[DEFAULT]\ntransport_url = fake://nobody\n'
    status, out, err = manage('explain capacity --timeout 1', config=config)
    assert (status, out) == (1, '')
    assert 'No answer to capacity' in err
