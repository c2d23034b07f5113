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
"""Tests of the figures of several runs, and of their picture."""

import builtins
import io
import json

import pytest
from rich.console import Console

from nova_sched import errors
from nova_sched.extensions.simulator.replays import figures
from nova_sched.extensions.simulator.replays.run import Course, Sample
from nova_sched.tests.rows import each

COURSES = {
    'nova': {
        100: Course(
            hosts=2,
            servers=10,
            refused=2,
            allocated=90.0,
            marks={80: 80.0},
            first_refusal=8,
            kinds={'small': (8, 10)},
            samples=[Sample(0.0, 10.0, 10.0, 0, 1)],
            took_s=[0.001, 0.003],
        ),
        101: Course(hosts=2, servers=10, allocated=94.0, kinds={'small': (10, 10)}),
    }
}


def test_means_over_the_runs():
    found = figures.of_policy(COURSES['nova'].values())
    assert found['allocated'] == (92.0, pytest.approx(2.83, abs=0.01), 2)
    assert found['placed: small'] == (9, pytest.approx(1.41, abs=0.01), 2)


def test_a_figure_that_only_some_runs_have():
    found = figures.of_policy(COURSES['nova'].values())
    assert found['first_refusal'] == (8, 0.0, 1)
    assert 'empty' not in found


def test_times_are_milliseconds():
    assert figures.of_run(COURSES['nova'][100])['p50_ms'] == pytest.approx(2.0)


def test_the_text_for_scripts():
    found = json.loads(json.dumps(figures.as_dict('openb', COURSES)))['policies']['nova']
    assert found['figures']['allocated']['mean'] == 92.0
    assert [run['seed'] for run in found['runs']] == [100, 101]
    assert found['runs'][0]['samples'] == [
        {'time_s': 0.0, 'load': 10.0, 'allocated': 10.0, 'refused': 0, 'empty': 1}
    ]


def test_the_table_has_a_column_for_each_policy():
    courses = {**COURSES, 'best-fit': {100: Course(servers=10, allocated=95.0)}}
    text = io.StringIO()
    Console(file=text, width=100).print(figures.table('openb', courses))
    assert '92.00 ± 2.83' in text.getvalue()
    assert '95.00' in text.getvalue()


def course(count, empty=None):
    samples = [Sample(3600.0 * one, 10.0 * one, 9.0 * one, one, 5 - one) for one in range(count)]
    return Course(servers=count, empty=empty, samples=samples)


DRAWN = {'nova': {100: course(4), 101: course(3)}, 'best-fit': {100: course(4)}}


@each('name, begin', [('a.png', b'\x89PNG'), ('a.svg', b'<?xml')])
def test_the_name_of_the_file_is_the_format(tmp_path, name, begin):
    path = tmp_path / name
    figures.draw(str(path), 'openb', DRAWN)
    assert path.read_bytes().startswith(begin)


@each('empty, label', [(None, 'asked for'), (50.0, 'hours')])
def test_time_is_the_axis_of_a_trace_with_times(tmp_path, empty, label):
    path = tmp_path / 'a.svg'
    figures.draw(str(path), 'azure', {'nova': {1: course(4, empty)}})
    assert f'<!-- {label}' in path.read_text()


def test_a_format_that_is_not_known(tmp_path):
    with pytest.raises(errors.BadConfig, match=r'--plot .*a\.xyz'):
        figures.draw(str(tmp_path / 'a.xyz'), 'openb', DRAWN)


def test_without_matplotlib(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith('matplotlib'):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, '__import__', missing)
    with pytest.raises(errors.BadConfig, match='nova-sched\\[plots\\]'):
        figures.draw(str(tmp_path / 'a.png'), 'openb', DRAWN)
