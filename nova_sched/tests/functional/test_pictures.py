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
"""The pictures of the manual show the states and the names that the code has."""

import csv
import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from nova_sched.db import jobs, tables
from nova_sched.extensions.queues import brokers
from nova_sched.objects.top_group import GroupStatusField
from nova_sched.tests import trace_picture

ROOT = Path(__file__).resolve().parents[3]
MANUAL = ROOT / 'doc' / 'source'
EDGE = re.compile(r'^ *"?([^"\n]+?)"? -> "?([^"\n]+?)"?(?: \[(?:label="([^"]*)")?.*\])?$', re.M)


def picture(name):
    """The text of a picture; its edges as (from, to, lines of the label)."""
    text = (MANUAL / 'pictures' / f'{name}.dot').read_text('utf-8')
    found = EDGE.findall(text)
    return text, {(a, b, tuple(label.split(r'\n'))) for a, b, label in found}


def ends(edges):
    return {name for a, b, _ in edges for name in (a, b)}


@pytest.fixture(scope='module')
def transitions():
    """Of a claim, as the table of the manual has them: (state, event, state)."""
    with (MANUAL / 'claims.csv').open(encoding='utf-8') as page:
        return {(a, event.replace('``', ''), b) for a, event, b in csv.reader(page)}


def test_the_pictures_of_a_claim_have_all_changes_of_its_state(transitions):
    edges = picture('claim')[1] | picture('move')[1]
    assert {(a, b) for a, b, _ in edges} == {(a, b) for a, _, b in transitions if a != b}


@pytest.mark.parametrize('name', ['claim', 'move'])
def test_the_events_of_a_claim_are_those_of_the_table(transitions, name):
    drawn = {(a, event, b) for a, b, events in picture(name)[1] for event in events}
    assert drawn <= transitions


def test_a_job_has_the_states_of_the_job_table():
    changes = {(a, b) for a, b, _ in picture('job')[1] if a == jobs.QUEUED}
    assert changes == {(jobs.QUEUED, end) for end in jobs.ENDS}


@pytest.mark.parametrize(
    'queue',
    [
        pytest.param(brokers.FALLBACK, id='fallback'),
        pytest.param(brokers.RESULTS, id='results'),
        pytest.param(brokers.of_flavor('tiny'), id='of a flavor'),
        pytest.param(brokers.of_host('compute-1'), id='of a host'),
    ],
)
def test_a_job_passes_the_queues_of_the_broker(queue):
    assert queue in ends(picture('job')[1])


def test_a_group_has_the_words_of_its_status():
    assert ends(picture('group')[1]) - {'start', 'end'} == set(GroupStatusField().valid_values)


def test_the_architecture_has_commands_packages_and_tables_that_exist():
    text, _ = picture('architecture')
    setup = ConfigParser()
    setup.read(ROOT / 'setup.cfg')
    commands = re.findall(r'^(\S+) =', setup['entry_points']['console_scripts'], re.M)
    assert set(re.findall(r'nova-sched-\w+', text)) <= set(commands)
    for package in re.findall(r'([\w/]+)/(?=[:,"])', text):
        assert (ROOT / 'nova_sched' / package / '__init__.py').exists(), package
    stored = re.search(r'label="database\\n([^"]*)"', text)[1].split(', ')
    assert set(stored) <= {table.name for table in tables.METADATA.sorted_tables}


def test_the_trace_of_a_boot_has_the_spans_that_are_sent(tmp_path):
    (spans,) = trace_picture.boots(tmp_path, 'fake://', hosts=30, calls=1)
    found = trace_picture.names(spans)
    assert [(depth, name) for depth, name, _ in found] == [
        (0, trace_picture.CALL),
        (1, 'select_destinations'),
        (2, 'wait'),
        (2, 'decide'),
        (2, 'commit'),
        (2, 'answer'),
    ]
    assert 'ResourceCapacity' in found[3][2]
    assert trace_picture.drawn(trace_picture.picture(spans)) == found
    assert trace_picture.drawn((MANUAL / 'images' / 'trace.svg').read_text('utf-8')) == found
