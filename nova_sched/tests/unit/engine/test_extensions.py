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
"""The seam of extensions: what they hear, and what becomes of one that fails."""

import importlib.metadata

import pytest

from nova_sched import errors, extension
from nova_sched.extension import Extension, Part
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.unit.engine.world import World


class Listener(Part):
    """Writes down what it hears."""

    def __init__(self):
        self.heard = []

    def follow(self, rules):
        self.heard.append(('follow', rules))

    def decided(self, order, decision):
        self.heard.append(('decided', type(decision).__name__))

    def committed(self, order, outcome):
        self.heard.append(('committed', outcome.won))

    def answered(self, order, outcome):
        self.heard.append(('answered', outcome))

    def figures(self):
        return {'heard': len(self.heard)}


class Broken(Part):
    def __init__(self):
        self.calls = 0

    def decided(self, order, decision):
        self.calls += 1
        raise RuntimeError('decided')

    committed = answered = decided

    def figures(self):
        raise RuntimeError('figures')


def offering(part):
    class Offered(Extension):
        def begin(self, scheduler):
            return part

    return Offered()


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def world(listener):
    extensions = {'listener': offering(listener), 'silent': offering(Part()), 'none': Extension()}
    made = World(extensions=extensions)
    made.report(report('host', vcpus=2))
    assert listener.heard.pop(0) == ('follow', made.context.rules)
    return made


def test_the_seams_of_a_placed_and_of_a_refused_order(world, listener):
    world.place(request(instance_uuid=uuid_of('one'), vcpus=2))
    assert listener.heard == [
        ('decided', 'Decision'),
        ('committed', True),
        ('answered', 'placed'),
    ]
    listener.heard.clear()
    with pytest.raises(errors.NoValidHost):
        world.place(request(instance_uuid=uuid_of('two'), vcpus=2))
    assert listener.heard == [('decided', 'NoValidHost'), ('answered', 'refused')]


def test_an_order_that_claims_nothing_commits_nothing(world, listener):
    world.place(request(instance_uuid=uuid_of('one')), claim=False)
    assert listener.heard == [('decided', 'Decision'), ('answered', 'placed')]


def test_only_those_who_listen_are_called(world):
    seams = world.context.seams
    assert [len(some) for some in (seams.decided, seams.committed, seams.answered)] == [1, 1, 1]
    assert sorted(world.scheduler.parts) == ['listener', 'silent']


def test_one_that_listens_only_at_times(world):
    heard = []
    seams = world.context.seams
    seams.listen('answered', 'sometimes', lambda _, outcome: heard.append(outcome))
    world.place(request(instance_uuid=uuid_of('one')))
    seams.listen('answered', 'sometimes', None)
    world.place(request(instance_uuid=uuid_of('two')))
    assert heard == ['placed']
    assert len(seams.answered) == 1


def test_what_fails_concerns_itself_alone(listener, caplog):
    broken = Broken()
    extensions = {'broken': offering(broken), 'listener': offering(listener)}
    world = World(extensions=extensions)
    world.report(report('host'))
    world.place(request(instance_uuid=uuid_of('one')))
    assert broken.calls == 3
    assert [name for name, _ in listener.heard] == ['follow', 'decided', 'committed', 'answered']
    assert world.scheduler._figures()['heard'] == 4
    told = 'The extension broken failed at a seam; further errors there are not logged'
    assert caplog.text.count(told) == 3  # one at each seam
    assert 'The extension broken failed: figures' in caplog.text


def test_one_that_cannot_begin_is_left_out(listener, caplog):
    class Late(Extension):
        def begin(self, scheduler):
            raise RuntimeError('not today')

    world = World(extensions={'late': Late(), 'listener': offering(listener)})
    assert sorted(world.scheduler.parts) == ['listener']
    assert 'The extension late cannot begin; it is left out' in caplog.text


def test_a_bad_configuration_ends_the_start():
    class Wrong(Extension):
        def begin(self, scheduler):
            raise errors.BadConfig('[acme] size', 'it is too small')

    with pytest.raises(errors.BadConfig, match='too small'):
        World(extensions={'wrong': Wrong()})


def test_a_figure_of_the_core_stays():
    class Liar(Part):
        def figures(self):
            return {'placed': -1, 'own': 7}

    figures = World(extensions={'liar': offering(Liar())}).scheduler._figures()
    assert (figures['placed'], figures['own']) == (0, 7)


def test_an_extension_that_needs_the_database_ends_no_stop(listener, caplog):
    class Away(Part):
        def stop(self):
            raise errors.StoreUnavailable('it is away')

        leave = stop

    world = World(extensions={'away': offering(Away()), 'listener': offering(listener)})
    stopped = []
    listener.stop = lambda: stopped.append(True)
    world.scheduler._each_part('leave')
    world.scheduler._each_part('stop')
    assert stopped == [True]
    assert 'The extension away failed: stop' in caplog.text


@pytest.mark.parametrize('made', [object(), {}, Extension()])
def test_what_is_no_part_is_left_out(made, caplog):
    assert World(extensions={'odd': offering(made)}).scheduler.parts == {}
    assert 'The extension odd cannot begin; it is left out' in caplog.text


@pytest.mark.parametrize('found', [None, 7])
def test_endpoints_that_are_no_list(found, caplog):
    class Odd(Part):
        def endpoints(self, bus):
            return found

    assert World(extensions={'odd': offering(Odd())}).scheduler.endpoints(None) == []
    assert 'The extension odd failed: endpoints' in caplog.text


# What is installed.


def install(monkeypatch, *points):
    """Entry points of these names and targets; returns what is installed then."""
    made = [importlib.metadata.EntryPoint(*point, extension.GROUP) for point in points]
    monkeypatch.setattr(importlib.metadata, 'entry_points', lambda group: made)
    return extension.installed.__wrapped__()


def test_what_cannot_be_loaded_is_left_out(monkeypatch, caplog):
    found = install(
        monkeypatch,
        ('gone', 'no.such.module:X'),
        ('odd', 'nova_sched.extension:Part'),
        ('there', 'nova_sched.extension:Extension'),
        ('there', 'nova_sched.extensions.queues:Queues'),
    )
    assert [type(one) for one in found.values()] == [Extension]
    for name in ('gone', 'odd', 'there'):
        assert f'The extension {name} cannot be loaded; it is left out' in caplog.text


def test_one_that_asks_for_extensions_when_it_is_imported(monkeypatch, tmp_path, caplog):
    (tmp_path / 'acme_early.py').write_text(
        'from nova_sched import extension\nextension.installed.__wrapped__()\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert install(monkeypatch, ('early', 'acme_early:X')) == {}
    assert 'import it later' in caplog.text


class Failing(Extension):
    def measures(self):
        raise RuntimeError('no measures')

    def nouns(self):
        return None

    def trials(self):
        raise errors.BadConfig('[acme] size', 'it is too small')


class Other(Extension):
    def measures(self):
        return (7,)

    def nouns(self):
        return {'noun': 'other', 'more': 'other'}


class Third(Extension):
    def nouns(self):
        return {'noun': 'third'}


def test_what_is_offered(monkeypatch, caplog):
    found = {'failing': Failing(), 'other': Other(), 'third': Third()}
    monkeypatch.setattr(extension, 'installed', lambda: found)
    assert extension.offered(list, 'measures') == [('other', [7]), ('third', [])]
    assert extension.united('nouns') == {'noun': 'other', 'more': 'other'}
    for method in ('measures', 'nouns'):
        assert f'The extension failing failed: {method}' in caplog.text
    with pytest.raises(errors.BadConfig, match='too small'):
        extension.united('trials')
