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
"""Templates are read in processes that may die: of memory, of time, or by a signal."""

import concurrent.futures
import contextlib
import itertools
import os
import signal
import time

import pytest

from nova_sched import errors
from nova_sched.engine.groups import reading, template_readers
from nova_sched.engine.groups.reading import Given, ReadingRules
from nova_sched.engine.groups.template_readers import TemplateReaders
from nova_sched.groups.definition import Definition
from nova_sched.tests.unit.engine.groups import reader_tasks

TASKS = reader_tasks.__name__
RULES = ReadingRules(('host', 'rack'), 1000, {'small': {'vcpus': 1, 'ram': 512}}, {}, 2.0)
HEAD = 'heat_template_version: 2021-04-16\n'
SERVERS = (
    'resources:\n  web:\n    type: OS::Heat::ResourceGroup\n    properties:\n      count: 3\n'
    '      resource_def: {type: OS::Nova::Server, properties: {flavor: small}}\n'
)


@pytest.fixture(autouse=True)
def quick_to_start(monkeypatch):
    monkeypatch.setattr(template_readers, 'LOADS', TASKS)
    monkeypatch.setattr(template_readers, 'GRACE_S', 0.0)


@pytest.fixture
def readers():
    made = TemplateReaders()
    yield made
    made.close()


def run(readers, task, seconds=60.0, project='p'):
    return readers.run(project, f'{TASKS}:{task}', seconds=seconds)


def test_a_process_is_kept(readers):
    first = run(readers, 'pid')
    assert first != os.getpid()
    with pytest.raises(errors.TemplateError) as caught:
        run(readers, 'refused')
    assert caught.value.args == ('a.b', 3, 4, 'no')
    for task in ('broken', 'deep'):
        with pytest.raises(errors.TemplateError, match='it cannot be read'):
            run(readers, task)
    assert run(readers, 'pid') == first


def test_what_ends_the_process_is_a_refusal(readers):
    """And the next call has another process."""
    wrong, before = {}, run(readers, 'pid')
    for task in ('memory', 'memory_bit_by_bit', 'forever', 'killed', 'large', 'asleep'):
        try:
            wrong[task] = run(readers, task, {'asleep': 0.1, 'forever': 1.0}.get(task, 60.0))
        except errors.TemplateError as error:
            if template_readers.TOO_MUCH not in error.why:
                wrong[task] = error
        after = run(readers, 'pid')
        if after == before:
            wrong[task] = 'its process lives'
        before = after
    assert wrong == {}


def test_numpy_starts_no_threads(readers):
    """Their buffers would take all memory of a reader on a machine with many CPUs."""
    assert run(readers, 'threads') == 1


def test_a_process_that_died_at_rest_is_replaced(readers):
    first = run(readers, 'pid')
    os.kill(first, signal.SIGKILL)
    while readers._idle[0].is_alive:
        time.sleep(0.01)
    assert run(readers, 'pid') != first


def test_one_of_a_project_at_a_time(readers):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ends = sorted(pool.map(lambda _: run(readers, 'slow'), range(4)))
    assert min(late - early for early, late in itertools.pairwise(ends)) >= 0.19
    assert len(readers._idle) == 1
    assert readers._turns == {}


@pytest.fixture
def held(tmp_path):
    """While it is entered, a call of a project is not done."""

    @contextlib.contextmanager
    def hold(readers, project):
        path = tmp_path / 'end'
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            task = f'{TASKS}:wait_for'
            call = pool.submit(readers.run, project, task, str(path), seconds=60.0)
            while not readers._turns:
                time.sleep(0.01)
            try:
                yield
                assert not call.done()
            finally:
                path.touch()

    return hold


@pytest.mark.parametrize('one, other', [('hostile', 'other'), (None, None)])
def test_other_projects_do_not_wait(readers, held, one, other):
    """As long as there is a process for them. Callers without a project are not one."""
    with held(readers, one):
        assert run(readers, 'pid', project=other)


def test_a_few_projects_keep_no_other_out(readers, held, monkeypatch):
    """They have all the calls that projects with calls may have."""
    monkeypatch.setattr(template_readers, 'MAX_CALLS', 1)
    with held(readers, 'hostile'):
        assert run(readers, 'pid', project='other')


@pytest.mark.parametrize(
    'limits, projects, why',
    [
        ({'MAX_CALLS_OF_PROJECT': 1}, 'pp', 'one after the other'),
        ({'WAIT_S': 0.05}, 'pp', 'one after the other'),
        ({'MAX_CALLS': 1}, 'pp', 'one after the other'),
        ({'MAX_FIRST_CALLS': 1}, 'pq', 'one after the other'),
        ({'PROCESSES': 1, 'WAIT_S': 0.05}, 'pq', 'after those of others'),
    ],
    ids=['calls of a project', 'wait', 'calls', 'first calls', 'processes'],
)
def test_too_many_calls(monkeypatch, held, limits, projects, why):
    for name, value in limits.items():
        monkeypatch.setattr(template_readers, name, value)
    readers, (one, other) = TemplateReaders(), projects
    with held(readers, one):
        while readers._slots._value == template_readers.PROCESSES:
            time.sleep(0.01)
        with pytest.raises(errors.RateLimited, match=why) as caught:
            run(readers, 'pid', project=other)
        assert caught.value.retry_s == 1
    assert run(readers, 'pid', project=other)
    assert readers._turns == {}
    readers.close()


def test_a_process_that_cannot_start(readers, monkeypatch):
    monkeypatch.setattr(template_readers, 'LOADS', 'nova_sched.not_there')
    with pytest.raises(errors.NoAnswer):
        run(readers, 'pid')


def test_a_reading_from_afar_is_the_same(readers):
    given = Given(HEAD + SERVERS, {}, {'large': {'vcpus': 2, 'ram': 1}})
    here = reading.read(given, RULES, 2.0)
    there = readers.run('p', 'nova_sched.engine.groups.reading:read', given, RULES, seconds=60.0)
    assert isinstance(there.definition, Definition)
    assert (there.definition, there.source) == (here.definition, here.source)
    assert there.requests.kinds == here.requests.kinds
    assert [one.vcpus for one in there.requests.of_kind.values()] == [1]
    account = readers.run(
        'p', 'nova_sched.engine.groups.reading:account', given, RULES, (), seconds=60.0
    )
    assert account == (here.definition.summary(), (None, False))


def test_a_long_hint_of_many_members_is_refused():
    """Members share it, but each is stored with its own copy."""
    hint = 'x' * 20_000
    text = HEAD + SERVERS.replace('count: 3', 'count: 900').replace(
        'flavor: small', f'flavor: small, scheduler_hints: {{a: {hint}}}'
    )
    with pytest.raises(errors.TemplateError, match='characters, more than 8388608'):
        reading.read(Given(text), RULES, 2.0)
