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
"""Tests of pictures of replays."""

import builtins

import pytest

from nova_sched import errors
from nova_sched.sim.replays import plot
from nova_sched.sim.replays.run import Course, Sample


def course(count, empty=None):
    samples = [Sample(3600.0 * one, 10.0 * one, 9.0 * one, one, 5 - one) for one in range(count)]
    return Course(servers=count, empty=empty, samples=samples)


COURSES = {'nova': {100: course(4), 101: course(3)}, 'best-fit': {100: course(4)}}


@pytest.mark.parametrize('name, begin', [('a.png', b'\x89PNG'), ('a.svg', b'<?xml')])
def test_the_name_of_the_file_is_the_format(tmp_path, name, begin):
    path = tmp_path / name
    plot.draw(str(path), 'openb', COURSES)
    assert path.read_bytes().startswith(begin)


@pytest.mark.parametrize('empty, label', [(None, 'asked for'), (50.0, 'hours')])
def test_time_is_the_axis_of_a_trace_with_times(tmp_path, empty, label):
    path = tmp_path / 'a.svg'
    plot.draw(str(path), 'azure', {'nova': {1: course(4, empty)}})
    assert f'<!-- {label}' in path.read_text()


def test_a_format_that_is_not_known(tmp_path):
    with pytest.raises(errors.BadConfig, match=r'--plot .*a\.xyz'):
        plot.draw(str(tmp_path / 'a.xyz'), 'openb', COURSES)


def test_without_matplotlib(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith('matplotlib'):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, '__import__', missing)
    with pytest.raises(errors.BadConfig, match='nova-sched\\[plots\\]'):
        plot.draw(str(tmp_path / 'a.png'), 'openb', COURSES)
