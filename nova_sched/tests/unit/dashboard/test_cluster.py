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

"""The settings of a host, when another process changes them as well."""

import types

import flask
import pytest
from oslo_context.context import RequestContext

from nova_sched import dashboard
from nova_sched.claims.values import ServiceFacts
from nova_sched.dashboard.cluster import ClusterPages
from nova_sched.tests.unit.dashboard.test_fleet import World, report
from nova_sched.tests.unit.dashboard.test_queues import Policy


@pytest.mark.parametrize('disabled', ['yes', 'no'])
def test_a_host_that_was_forced_down_in_the_meantime_stays_so(monkeypatch, disabled):
    monkeypatch.setattr(flask, 'render_template', lambda *_, **given: given['history'])
    world = World()
    world.store.report([report('a')])
    world.fleet.facts()
    world.store.set_service(ServiceFacts('a', forced_down=True))
    log = types.SimpleNamespace(newest_first=None)
    sources = types.SimpleNamespace(fleet=world.fleet, store=world.store, decisions=log)
    conf = types.SimpleNamespace(dashboard=types.SimpleNamespace(streams=0))
    pages = ClusterPages(
        dashboard.Parts(conf, Policy('dashboard:hosts:set_service'), None, sources)
    )
    form = {'name': 'a', 'disabled': disabled}
    with flask.Flask('test').test_request_context('/', method='POST', data=form):
        flask.g.context = RequestContext()
        assert pages.service() is None  # without the right to see decisions
    found = world.fleet.facts().service('a')
    assert (found.disabled, found.forced_down) == (disabled == 'yes', True)
