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
"""`nova-sched-manage host`."""

import json

import pytest

from nova_sched.claims import ServiceFacts
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.tests.builders import report


@pytest.fixture
def store(database):
    """A store with the hosts `a` and `b`, which have just reported."""
    made = SqlClaimStore(database)
    made.report([report('a'), report('b')])
    return made


@pytest.fixture
def host(manage, tmp_path):
    """``host('list', ...)`` on this database; ``source`` is that of [cluster]."""

    def run(*words, source='reports'):
        connection = f'connection = sqlite:///{tmp_path}/db.sqlite\n'
        config = f'[cluster]\nsource = {source}\n[database]\n{connection}[claims]\n{connection}'
        return manage('host', *words, config=config)

    return run


def services(store):
    return {one.host: one for one in store.changes({}).services or ()}


@pytest.mark.parametrize('verb', ['disable', 'enable'])
def test_nova_has_the_settings_of_its_hosts(host, store, verb):
    status, _, err = host(verb, 'a', source='nova')
    assert (status, 'openstack compute service set' in err) == (1, True)
    assert services(store) == {}
    assert host(verb, 'a').status == 0


@pytest.mark.parametrize('verb, disabled', [('disable', True), ('enable', False)])
def test_a_host_that_is_forced_down_after_the_read_stays_so(
    host, store, monkeypatch, verb, disabled
):
    real = SqlClaimStore.changes

    def changes(self, known):
        found = real(self, known)
        store.set_service(ServiceFacts('a', None, None, True))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(SqlClaimStore, 'changes', changes)
        status, out, _ = host(verb, '*', '--format', 'json')
    assert status == 0
    told = {one['host']: (one['disabled'], one['forced_down']) for one in json.loads(out)}
    assert told == {'a': (disabled, True), 'b': (disabled, False)}
    found = services(store)
    assert {name: (one.disabled, one.forced_down) for name, one in found.items()} == told


def test_only_nova_knows_the_state_of_its_hosts(host, store):
    assert '| up ' in host('list').out
    status, out, _ = host('list', source='nova')
    assert (status, out.count('| unknown '), 'Seen' in out) == (0, 2, False)
    status, out, _ = host('show', 'a', source='nova')
    assert (status, 'State       unknown: nova-sched-manage cloud status' in out) == (0, True)
    assert ('Service     unknown' in out, 'last seen' in out) == (True, False)


def test_a_host_whose_provider_has_the_trait_is_disabled_in_nova(host, store):
    store.report([report('a', traits=frozenset(['COMPUTE_STATUS_DISABLED']))])
    out = host('show', 'a', source='nova').out
    assert 'State       disabled\n' in out


@pytest.mark.parametrize('force', [(), ('--force',)])
def test_nova_removes_its_hosts(host, store, force):
    status, _, err = host('remove', 'a', *force, source='nova')
    assert (status, 'openstack compute service delete' in err) == (1, True)
    assert len(store.heads()) == 2
