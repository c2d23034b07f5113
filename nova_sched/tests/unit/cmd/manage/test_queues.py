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
"""`nova-sched-manage flavor` on a database in a file."""

import json
import re

import pytest

from nova_sched.db.flavors import SqlFlavors
from nova_sched.tests.rows import each
from nova_sched.tests.unit.cmd.manage.test_commands import ROOT, cells, keys
from nova_sched.tests.unit.db.test_stores import flavor


@pytest.fixture
def flavors(database):
    """The flavors of the configuration: none."""
    return SqlFlavors(database)


@pytest.fixture
def run(manage, flavors, tmp_path):
    """``run('flavor list', ...)`` with a configuration of these lines besides."""

    def run(words, *more, lines='', bus='fake://'):
        config = f'[DEFAULT]\ntransport_url = {bus}\n[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n'
        return manage(words, *more, config=config + lines)

    return run


AMOUNTS = {
    'flavorid': '7',
    'vcpus': 2,
    'memory_mb': 1024,
    'root_gb': 3,
    'ephemeral_gb': 4,
    'swap': 5,
}
SPECS = {'trait:CUSTOM_SSD': 'required', 'quota:x': 'a=b'}


@pytest.mark.parametrize(
    'words, facts',
    [
        ('', {'memory_mb': 256, 'root_gb': 0}),
        ('--id 7 --vcpus 2 --ram 1024 --disk 3 --ephemeral 4 --swap 5', AMOUNTS),
        (
            '--property trait:CUSTOM_SSD=required --property quota:x=a=b',
            {'memory_mb': 256, 'root_gb': 0, 'extra_specs': SPECS},
        ),
    ],
)
def test_create(run, flavors, words, facts):
    assert run(f'flavor create tiny {words}') == (0, 'Flavor tiny is there now.\n', '')
    version, (made,) = flavors.list()
    assert version == 1
    assert made == flavor(created_s=made['created_s'], **facts)


def test_create_again(run, flavors):
    words = 'flavor create tiny --ram 512 --disk 1'
    run(words)
    assert run(words) == (0, 'Flavor tiny was there already.\n', '')
    other = run('flavor create tiny --ram 1024 --disk 1')
    assert (other.status, other.out) == (1, '')
    assert 'its memory_mb is 512, not 1024' in other.err
    assert flavors.list()[0] == 1


@each(
    'words, where',
    [
        (['big', '--vcpus', '0'], 'flavor big, vcpus: 0'),
        (['big', '--ram', str(2**60)], 'flavor big, memory_mb'),
        (['big', '--swap', '-1'], 'flavor big, swap: -1'),
        ([' big'], 'flavor name'),
        (['big', '--id', 'x' * 256], 'flavor big, flavorid'),
        (['big', '--property', 'hw:numa_nodes=x'], 'flavor big, hw:numa_nodes'),
        (['big', '--property', 'pci_passthrough:alias=gpu:1'], "no alias 'gpu'"),
    ],
)
def test_what_makes_no_sense_is_refused_and_told(run, flavors, words, where):
    status, out, err = run('flavor create', *words)
    assert (status, out) == (1, '')
    assert where in err
    assert flavors.list() == (0, [])


@each(
    'words', ['flavor create', 'flavor create tiny --vcpus x', 'flavor create tiny --property x']
)
def test_a_line_that_makes_no_sense(run, words):
    with pytest.raises(SystemExit) as ended:
        run(words)
    assert ended.value.code == 2


def test_delete(run, flavors):
    flavors.create(flavor())
    assert run('flavor delete tiny') == (0, 'Flavor tiny is deleted.\n', '')
    assert flavors.list() == (2, [])
    again = run('flavor delete tiny')
    assert (again.status, again.out) == (1, '')
    assert 'There is no flavor tiny' in again.err
    assert 'There is no flavor tiny' in run('flavor show tiny').err


def test_a_bus_that_is_away_is_a_warning(run, flavors):
    done = run('flavor create tiny', bus='rabbit://a:b@127.0.0.1:1/')
    assert (done.status, done.out) == (0, 'Flavor tiny is there now.\n')
    assert 'the change is stored, and takes effect within a minute' in done.err
    assert len(done.err.splitlines()) == 1
    assert len(flavors.list()[1]) == 1


def test_flavors_are_listed(run, flavors):
    flavors.create(flavor('tiny', extra_specs={'b': '1', 'a': '2'}))
    flavors.create(flavor('big', vcpus=8))
    rows = cells(run('flavor list').out)[1:]
    assert [row[:4] for row in rows] == [['big', 'big', '8', '512'], ['tiny', 'tiny', '1', '512']]
    assert rows[1][7] == 'a=2, b=1'
    listed = json.loads(run('flavor list --format json').out)
    assert [row['name'] for row in listed] == ['big', 'tiny']


QUEUES = '[queues]\nspecials = trait:CUSTOM_SSD, zone:north\n'


@pytest.mark.parametrize(
    'extra_specs, queues',
    [
        ({}, ['tiny', 'tiny+trait:CUSTOM_SSD', 'tiny+zone:north']),
        ({'trait:CUSTOM_SSD': 'required'}, ['tiny', 'tiny+zone:north']),  # it asks for it itself
        ({'hw:numa_nodes': '1'}, []),  # NUMA is for the scheduler
    ],
)
def test_a_flavor_and_its_queues(run, flavors, extra_specs, queues):
    flavors.create(flavor(extra_specs=extra_specs))
    assert json.loads(run('flavor show tiny --format json', lines=QUEUES).out)['queues'] == queues
    lines = run('flavor show tiny', lines=QUEUES).out.splitlines()
    assert lines[0].split() == ['Name', 'tiny']
    assert [line.split() for line in lines if line.startswith('Queue')] == [
        ['Queue', name] for name in queues or ['none']
    ]


def test_the_age_of_a_flavor_is_by_the_clock_of_the_database(run, flavors, an_hour_ahead):
    before_s = flavors.now_s()
    run('flavor create tiny')
    (found,) = flavors.list()[1]
    assert before_s <= found['created_s'] <= flavors.now_s()
    for words in ('flavor list', 'flavor show tiny'):
        assert re.search(r'\d+ s ago', run(words).out)


@pytest.mark.parametrize(
    'words', ['flavor create tiny', 'flavor list', 'flavor show small', 'flavor delete small']
)
def test_what_json_holds_is_documented(run, flavors, words):
    flavors.create(flavor('small'))
    page = (ROOT / 'doc/source/command-line.rst').read_text()
    found = keys(json.loads(run(f'{words} --format json').out))
    assert found
    assert [name for name in sorted(found) if f'``{name}``' not in page] == []
