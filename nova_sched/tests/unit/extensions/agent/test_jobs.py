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
"""What the configuration makes of an agent's worker, and how that sees its node and the
catalogue."""

import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.extensions.agent import jobs as agent_queues
from nova_sched.extensions.queues.brokers import of_flavor
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.extensions.queues.node.subscriptions import NONE
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.agent.builders import agent_of
from nova_sched.tests.unit.extensions.agent.fake_machine import two_cells

SIZES = {'tiny': 1, 'large': 8}
ROW = {'memory_mb': 16, 'root_gb': 0, 'ephemeral_gb': 0, 'swap': 0, 'extra_specs': {}}


@pytest.fixture
def conf():
    CONF([], project='nova_sched', default_config_files=[], default_config_dirs=[])
    rpc.transport(CONF, 'fake://').cleanup()  # registers the options of the bus
    yield CONF
    CONF.reset()


@pytest.fixture
def agent(tmp_path):
    """Of a machine of eight CPUs."""
    return agent_of(tmp_path, two_cells(tmp_path / 'machine'), cpu_allocation_ratio=1.0)


@pytest.fixture
def site(agent):
    return agent_queues.AgentNodeApi(agent, agent.host)


class Queues:
    """A manager of queues in memory."""

    def __init__(self, **flavors):
        self.flavors, self.aggregates, self.more, self.asked = flavors, [], {}, []

    def catalogue(self, host):
        self.asked.append(host)
        rows = [{'name': name, 'vcpus': vcpus, **ROW} for name, vcpus in self.flavors.items()]
        plain = Catalogue.of(len(self.flavors), rows, ()).to_plain()
        return {**plain, 'aggregates': list(self.aggregates), **self.more}


def zone(name, host):
    return {
        'id': 1,
        'name': name,
        'uuid': None,
        'metadata': {'availability_zone': name},
        'hosts': [host],
    }


def followed(view, site):
    wanted = view.judge(site.facts())
    return {name for name, priority in zip(view.names, wanted, strict=True) if priority != NONE}


def test_hidden_instances_take_their_room_here(site, agent):
    site.begin(request(instance_uuid=uuid_of('server'), vcpus=3, memory_mb=16))
    assert site.facts().used['VCPU'] == 3
    assert agent.read().node.vcpus_used == 0
    assert (site.hidden(), site.holds(uuid_of('server'))) == ([uuid_of('server')], False)
    site.keep(uuid_of('server'))
    assert (site.hidden(), site.holds(uuid_of('server'))) == ([], True)
    assert not site.holds(uuid_of('other'))
    assert not site.has_two_sizes(uuid_of('server'))
    site.resize(request(instance_uuid=uuid_of('server'), vcpus=2, memory_mb=16))
    assert site.has_two_sizes(uuid_of('server'))


def test_the_node_follows_the_queues_that_fit(conf, site):
    queues = Queues(**SIZES)
    view = agent_queues.HostCatalogue(conf, queues, 'cmp1')()
    assert (queues.asked, followed(view, site)) == (['cmp1'], set(map(of_flavor, SIZES)))
    site.begin(request(instance_uuid=uuid_of('server'), vcpus=1, memory_mb=16))
    assert followed(view, site) == {of_flavor('tiny')}


def test_the_same_catalogue_is_the_same_view(conf):
    menu = agent_queues.HostCatalogue(conf, Queues(**SIZES), 'cmp1')
    assert menu() is menu()


@each_afresh(
    'change, same_names',
    {
        'a flavor': (lambda queues: queues.flavors.update(huge=64), False),
        'an aggregate': (lambda queues: queues.aggregates.append(zone('north', 'cmp1')), True),
        'the service': (lambda queues: queues.more.update(disabled=True), True),
    },
)
def test_another_catalogue_is_another_view(conf, change, same_names):
    queues = Queues(**SIZES)
    menu = agent_queues.HostCatalogue(conf, queues, 'cmp1')
    before = menu()
    change(queues)
    after = menu()
    assert after is not before
    assert (after.names is before.names) == same_names


def test_other_options_are_another_view(conf):
    menu = agent_queues.HostCatalogue(conf, Queues(**SIZES), 'cmp1')
    before = menu()
    menu.forget()
    assert menu() is not before


def test_a_disabled_node_follows_nothing(conf, site):
    queues = Queues(**SIZES)
    queues.more['disabled'] = True
    assert followed(agent_queues.HostCatalogue(conf, queues, 'cmp1')(), site) == set()


def test_a_catalogue_that_cannot_be_read_changes_nothing(conf):
    queues = Queues(**SIZES)
    menu = agent_queues.HostCatalogue(conf, queues, 'cmp1')
    before = menu()
    queues.more['form'] = 99
    with pytest.raises(errors.Invalid):
        menu()
    del queues.more['form']
    assert menu() is before


EXEC = {'queues.driver': 'exec', 'queues.exec_command': 'true'}


@each_afresh(
    'options, where',
    {
        'unknown driver': ({'queues.driver': 'libvirt'}, 'driver'),
        'no command': ({'queues.driver': 'exec'}, 'exec_command'),
        'no such user': (EXEC | {'queues.exec_user': 'nobody-here'}, 'exec_user'),
        'no variable': (EXEC | {'queues.exec_environment': ['A B']}, 'exec_environment'),
        'a rule': ({'filter_scheduler.enabled_filters': ['NoFilter']}, 'enabled_filters'),
        'broker': ({'queues.transport_url': 'rabbit://a:b:c'}, 'transport_url'),
    },
)
def test_a_bad_configuration_is_told_at_the_start(conf, options, where):
    wanted = {'queues.transport_url': 'fake://'} | options
    with settings(wanted), pytest.raises(errors.BadConfig, match=where):
        agent_queues.check(conf, 'cmp1')


def test_a_good_one_is_not(conf, caplog):
    with settings(
        {'queues.transport_url': 'fake://', 'queues.driver': 'exec', 'queues.exec_command': 'true'}
    ):
        agent_queues.check(conf, 'cmp1')
    assert caplog.messages == []
