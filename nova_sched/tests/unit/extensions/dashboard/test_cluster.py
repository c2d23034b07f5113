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

"""The settings of a host, when another process changes them as well; the events of the map, also
when all places are taken."""

import contextlib
import json
import types

import flask
import pytest
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.claims.values import ServiceFacts
from nova_sched.extensions.dashboard.cluster import LIFE_S, ClusterPages, Streams
from nova_sched.extensions.dashboard.parts import Parts
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.dashboard.test_host_overview import World, report
from nova_sched.tests.unit.extensions.dashboard.test_queues import Policy

RULES = ('dashboard:hosts', 'dashboard:hosts:set_service')


def made_pages(sources, source='reports'):
    """The pages for an operator; ``source`` is that of [cluster]."""
    conf = types.SimpleNamespace(
        dashboard=types.SimpleNamespace(streams=0), cluster=types.SimpleNamespace(source=source)
    )
    return ClusterPages(Parts(conf, Policy(*RULES), None, sources))


@contextlib.contextmanager
def posted(form):
    with flask.Flask('test').test_request_context('/', method='POST', data=form):
        flask.g.context = RequestContext()
        yield


@pytest.mark.parametrize('disabled', ['yes', 'no'])
def test_a_host_that_was_forced_down_in_the_meantime_stays_so(monkeypatch, disabled):
    monkeypatch.setattr(flask, 'render_template', lambda *_, **given: given['history'])
    world = World()
    world.store.report([report('a')])
    world.overview.facts()
    world.store.set_service(ServiceFacts('a', forced_down=True))
    log = types.SimpleNamespace(newest_first=None)
    sources = types.SimpleNamespace(overview=world.overview, store=world.store, decisions=log)
    with posted({'name': 'a', 'disabled': disabled}):
        assert made_pages(sources).service() is None  # without the right to see decisions
    found = world.overview.facts().service('a')
    assert (found.disabled, found.forced_down) == (disabled == 'yes', True)


@pytest.fixture
def sources():
    """What the pages read: a store with the host `a`."""
    world = World()
    world.store.report([report('a')])
    return types.SimpleNamespace(overview=world.overview, store=world.store, decisions=None)


def test_nova_has_the_settings_of_its_hosts(sources):
    pages = made_pages(sources, 'nova')
    with (
        posted({'name': 'a', 'disabled': 'yes'}),
        pytest.raises(errors.InvalidRequest, match='openstack compute service set'),
    ):
        pages.service()
    assert not sources.overview.facts().service('a').disabled


@pytest.mark.parametrize('source, may_set', [('reports', True), ('nova', False)])
def test_the_form_of_a_host(sources, monkeypatch, source, may_set):
    monkeypatch.setattr(flask, 'render_template', lambda *_, **given: given['may_set'])
    with flask.Flask('test').test_request_context('/?name=a'):
        flask.g.context = RequestContext()
        assert made_pages(sources, source).host() == may_set


class Changes:
    """Answers one after the other; each is a version and what has changed."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, version):
        self.asked.append(version)
        return self.answers.pop(0)


def events(body):
    """Names and data of the events."""
    found = []
    for text in body:
        lines = dict(line.split(': ', 1) for line in text.strip().splitlines())
        if 'event' in lines:
            found.append((lines['event'], lines['id'], json.loads(lines['data'])))
    return found


def streams(most, times):
    return Streams(most, sleep=lambda _: None, clock=iter(times).__next__)


@each(
    'most, times, answers, told',
    [
        (
            1,
            [0, 1, 2, LIFE_S],
            [('b-2', [[0, 1]]), ('b-2', []), ('b-3', [[1, 1]])],
            [('cells', 'b-2', [[0, 1]]), ('cells', 'b-3', [[1, 1]])],
        ),
        (1, [0], [('c-1', None)], [('reload', 'c-1', '')]),
        (0, [0], [('b-2', [[0]])], [('cells', 'b-2', [[0]])]),  # without a place it ends at once
    ],
)
def test_changes_follow_each_other(most, times, answers, told):
    changes = Changes(*answers)
    assert events(streams(most, times)._events(changes, 'b-1')) == told
    assert changes.asked == ['b-1', *(version for version, _ in answers[:-1])]


def test_a_stream_that_ends_leaves_its_place():
    made = streams(1, [0, 0, 0, LIFE_S, 0, 0])
    first = made._events(Changes(('b-1', [])), 'b-1')
    next(first)
    first.close()
    body = made._events(Changes(('b-1', []), ('b-1', [])), 'b-1')
    assert len(list(body)) == 3  # it stayed for a second look


def test_a_stream_ends_without_the_database():
    def changes(_):
        raise errors.StoreUnavailable('the database is away')

    made = streams(1, [0, 0])
    for _ in range(2):  # the first one has left its place
        (retry,) = made._events(changes, 'b-1')
        assert retry.startswith('retry: ')
