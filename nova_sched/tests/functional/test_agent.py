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
"""Agents and a scheduler that are real, on a bus inside this process."""

import concurrent.futures
import contextlib
import logging
import time
import uuid

import pytest

from nova_sched import errors, objects, rpc, service
from nova_sched.conf import CONF
from nova_sched.extensions.agent import daemon as agent_service
from nova_sched.extensions.agent.daemon import AgentService
from nova_sched.rpc.agent import AgentClient
from nova_sched.rpc.conductor import Conductor
from nova_sched.tests.functional.harness import Caller
from nova_sched.tests.hardware_objects import spec_fields
from nova_sched.tests.unit.extensions.agent.builders import settings
from nova_sched.tests.unit.extensions.agent.fake_machine import two_cells
from nova_sched.tests.unit.hardware.builders import dedicated, wanted

TIMEOUT_S = 60
DEDICATED = {'hw__cpu_policy': 'dedicated'}


def write(folder, interval):
    """A configuration file that says how often agents report; returns its path."""
    path = folder / 'nova_sched.conf'
    path.write_text(f'[agent]\nreport_interval = {interval}\n')
    return str(path)


@pytest.fixture
def conf(tmp_path):
    """The configuration: reports each second, an empty database."""
    CONF(
        [], project='nova_sched', default_config_files=[write(tmp_path, 1)], default_config_dirs=[]
    )
    CONF.set_override('connection', f'sqlite:///{tmp_path}/claims.sqlite', group='database')
    CONF.set_override('store', 'memory', group='claims')
    CONF.set_override('report_timeout', 1, group='agent')
    CONF.set_override('state_path', str(tmp_path / 'state'), group='agent')
    yield CONF
    CONF.reset()


class Cloud:
    """A bus with what is started on it; all of it is stopped at the end."""

    def __init__(self, conf, root, url='fake://'):
        self.bus = rpc.transport(conf, url)
        self.conductor = Conductor(self.bus)
        self.claims = Caller(self.bus)
        self._conf = conf
        self._root = root
        self._started = []

    def _start(self, one):
        self._started.append(one)
        one.start()
        return one

    def scheduler(self):
        return self._start(service.SchedulerService(self._conf, self.bus))

    def stop(self, one):
        self._started.remove(one)
        one.stop()

    def close(self):
        """Stop all at once: each waits a second for its idle threads to end."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda one: one.stop(), self._started))
        self.bus.cleanup()

    def this_machine(self):
        """An agent as the configuration says."""
        return self._start(AgentService(self._conf, agent_service.check(self._conf), self.bus))

    def agent(self, host, **options):
        """An agent of a machine of eight CPUs in two cells; ``options`` are settings."""
        home = self._root / host
        fake = two_cells(home)
        plain = {
            'host': host,
            'uuid_file': home / 'compute_id',
            'instances_path': home,
            'host_ip': '192.0.2.7',
            'cpu_allocation_ratio': 1.0,
            'sys_root': fake.sys,
            'proc_root': fake.proc,
        }
        return self._start(AgentService(self._conf, settings(**plain | options), self.bus))

    def boot(self, spec):
        """UUID of a new server and the host that has built it."""
        instance = str(uuid.uuid4())

        def build(instance, selection):
            AgentClient(self.bus, selection.service_host).build(spec, instance)

        (selection,) = self.conductor.boot(spec, [instance], build)
        return instance, selection.service_host

    def states(self, instance):
        """Host and state of the server's claims."""
        return [(claim.host, claim.state) for claim in self.claims.show(instance)]

    def instances(self, host):
        return [one['uuid'] for one in AgentClient(self.bus, host).instances()]

    def ranking(self):
        """The hosts that would take a server now, best first."""
        (found,) = self.conductor.scheduler.select_destinations(asked(), None)
        return [selection.service_host for selection in found]

    def takes(self, **words):
        """Whether a server would be placed now; it is not."""
        return self.places(asked(**words))

    def places(self, spec):
        """The same for a spec."""
        try:
            return bool(self.conductor.scheduler.select_destinations(spec, None))
        except errors.NoValidHost:
            return False


@pytest.fixture
def cloud(conf, tmp_path):
    made = Cloud(conf, tmp_path)
    yield made
    made.close()


def asked(vcpus=2, **extra_specs):
    """A RequestSpec; in the names of extra specs a double underscore stands for the colon."""
    specs = {name.replace('__', ':'): value for name, value in extra_specs.items()}
    plain = {'memory_mb': 16, 'root_gb': 0, 'ephemeral_gb': 0, 'swap': 0}
    flavor = objects.Flavor(name='small', vcpus=vcpus, extra_specs=specs, **plain)
    return objects.RequestSpec(flavor=flavor, project_id='project', user_id='user', is_bfv=False)


def until(true):
    """Wait until a condition holds."""
    end = time.monotonic() + TIMEOUT_S
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_a_server_is_built_confirmed_and_released(cloud):
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    instance, host = cloud.boot(asked())
    assert host == 'cmp1'
    until(lambda: cloud.states(instance) == [('cmp1', 'confirmed')])
    assert cloud.instances('cmp1') == [instance]
    assert AgentClient(cloud.bus, 'cmp1').destroy(instance)
    until(lambda: cloud.states(instance) == [])
    assert cloud.instances('cmp1') == []


def test_what_is_reported_is_what_is_sold(cloud):
    cloud.scheduler()
    cloud.agent('cmp1', reserved_host_cpus=2)
    until(cloud.takes)
    assert (cloud.takes(vcpus=6), cloud.takes(vcpus=7)) == (True, False)
    cloud.boot(asked(vcpus=3))
    assert (cloud.takes(vcpus=3), cloud.takes(vcpus=4)) == (True, False)


@pytest.mark.parametrize(
    'options, extra_specs, servers',
    [
        pytest.param({'cpu_dedicated_set': '0-4'}, DEDICATED, 2, id='dedicated CPUs'),
        pytest.param({}, DEDICATED, 4, id='shared CPUs for dedicated ones'),
        pytest.param(
            {'resources': {'CUSTOM_GOLD': 3}},
            {'resources__CUSTOM_GOLD': '1'},
            3,
            id='custom resources',
        ),
        pytest.param({'traits': ['CUSTOM_X']}, {'trait__CUSTOM_X': 'required'}, 4, id='a trait'),
        pytest.param({}, {'trait__CUSTOM_X': 'required'}, 0, id='no trait'),
    ],
)
def test_scheduler_and_agent_agree_on_how_many_fit(cloud, options, extra_specs, servers):
    cloud.scheduler()
    cloud.agent('cmp1', **options)
    until(lambda: cloud.takes(vcpus=1))
    booted = 0
    while cloud.takes(**extra_specs):
        cloud.boot(asked(**extra_specs))
        booted += 1
    assert booted == servers == len(cloud.instances('cmp1'))


@pytest.mark.parametrize(
    'asks, shortage',
    [
        pytest.param({}, 'VCPU: 2 asked, 1 available', id='CPUs'),
        pytest.param(DEDICATED, 'PCPU: 2 asked, the node has 1 in all', id='dedicated CPUs'),
        pytest.param(
            {'resources__CUSTOM_GOLD': '2'}, 'CUSTOM_GOLD: 2 asked', id='custom resources'
        ),
    ],
)
def test_a_host_refuses_what_it_has_no_room_for(cloud, asks, shortage):
    cloud.scheduler()
    cloud.agent('cmp1', cpu_dedicated_set='7', resources={'CUSTOM_GOLD': 1})
    until(cloud.takes)
    agent = AgentClient(cloud.bus, 'cmp1')
    agent.build(asked(vcpus=6), str(uuid.uuid4()))
    with pytest.raises(errors.ComputeResourcesUnavailable, match=shortage):
        agent.build(asked(**asks), str(uuid.uuid4()))
    assert len(agent.instances()) == 1


def test_a_refused_server_goes_to_the_next_alternate(cloud, caplog):
    cloud.scheduler()
    # The scheduler prefers the first by its ratio, and learns nothing of what comes to be there
    # meanwhile.
    first = cloud.agent('cmp1', cpu_allocation_ratio=4.0)
    second = cloud.agent('cmp2')
    until(lambda: cloud.takes() and len(cloud.ranking()) == 2)
    assert cloud.ranking() == ['cmp1', 'cmp2']
    first.reporter.stop()
    for _ in range(4):
        AgentClient(cloud.bus, 'cmp1').build(asked(vcpus=8), str(uuid.uuid4()))
    instance, host = cloud.boot(asked())
    assert host == 'cmp2'
    until(lambda: cloud.states(instance) == [('cmp2', 'confirmed')])
    assert (instance in cloud.instances('cmp1'), cloud.instances('cmp2')) == (False, [instance])
    (refusal,) = [line for line in caplog.messages if f'{instance} is refused' in line]
    assert 'VCPU: 2 asked, 0 available' in refusal
    assert 'VCPU: 32 of 32 here, 0 of 32 there' in refusal
    second.reporter.stop()
    for _ in range(3):
        AgentClient(cloud.bus, 'cmp2').build(asked(), str(uuid.uuid4()))
    with pytest.raises(errors.MaxRetriesExceeded, match='tried cmp1, cmp2'):
        cloud.boot(asked())


@pytest.mark.parametrize('store', ['memory', 'sql'])
def test_a_scheduler_that_restarts(cloud, conf, caplog, store):
    caplog.set_level(logging.INFO, 'nova_sched.extensions.agent')
    conf.set_override('store', store, group='claims')
    first = cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    before, _ = cloud.boot(asked(vcpus=3))
    until(lambda: cloud.states(before) == [('cmp1', 'confirmed')])
    cloud.stop(first)
    meanwhile = str(uuid.uuid4())
    AgentClient(cloud.bus, 'cmp1').build(asked(vcpus=3), meanwhile)
    until(lambda: 'cannot be reported' in caplog.text)
    cloud.scheduler()
    until(lambda: 'The scheduler answers again' in caplog.text)
    # A scheduler that keeps nothing knows what is in use; one that keeps its claims knows by whom.
    assert cloud.states(before) == {'memory': [], 'sql': [('cmp1', 'confirmed')]}[store]
    assert cloud.states(meanwhile) == []
    assert (cloud.takes(vcpus=2), cloud.takes(vcpus=3)) == (True, False)
    AgentClient(cloud.bus, 'cmp1').destroy(before)
    until(lambda: cloud.takes(vcpus=5))
    assert cloud.states(before) == []
    assert not cloud.takes(vcpus=6)
    lines = [
        record.getMessage()
        for record in caplog.records
        if record.name == 'nova_sched.extensions.agent.reporter'
    ]
    assert [line.partition(';')[0] for line in lines] == [
        'Reporting node cmp1 each 1 s, and each change at once',
        'Node cmp1 cannot be reported',
        'The scheduler answers again',
    ]


def disputes(caplog):
    """What was said of differences between node and scheduler."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == 'nova_sched.extensions.agent.difference'
    ]


AGREED = 'Node cmp1 and the scheduler count the same again'


@pytest.mark.parametrize(
    'vcpus, text',
    [
        pytest.param(2, None, id='the size that was claimed'),
        pytest.param(4, 'VCPU=4 here, VCPU=2 claimed', id='another size'),
    ],
)
def test_a_size_that_was_not_claimed_is_told_once(cloud, caplog, vcpus, text):
    caplog.set_level(logging.INFO, 'nova_sched.extensions.agent')
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    instance, _ = cloud.boot(asked(vcpus=2))
    AgentClient(cloud.bus, 'cmp1').build(asked(vcpus=vcpus), instance)
    time.sleep(4.5)  # some reports
    until(lambda: disputes(caplog) or not text)
    head = 'Node cmp1 and the scheduler count differently'
    assert disputes(caplog) == ([f'{head}. instance {instance}: {text}'] if text else [])


@pytest.mark.parametrize(
    'end',
    [
        pytest.param(
            lambda cloud, stray: AgentClient(cloud.bus, 'cmp1').destroy(stray), id='it goes'
        ),
        pytest.param(
            lambda cloud, stray: cloud.claims.instance_claim(
                asked(vcpus=3), stray, 'cmp1', 'cmp1'
            ),
            id='it gets a claim',
        ),
    ],
)
def test_an_instance_without_a_claim_is_told_once_until_that_is_over(cloud, caplog, end):
    caplog.set_level(logging.INFO, 'nova_sched.extensions.agent')
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    instance, _ = cloud.boot(asked())
    stray = str(uuid.uuid4())
    AgentClient(cloud.bus, 'cmp1').build(asked(vcpus=3), stray)
    until(lambda: disputes(caplog))
    end(cloud, stray)
    until(lambda: AGREED in disputes(caplog))
    warning, _ = disputes(caplog)
    assert warning.endswith(f'. instance {stray}: MEMORY_MB=16 VCPU=3 here, no claim')
    assert cloud.states(instance) == [('cmp1', 'confirmed')]


def test_servers_that_come_and_go_are_no_difference(cloud, caplog):
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    agent, end = AgentClient(cloud.bus, 'cmp1'), time.monotonic() + 5
    while time.monotonic() < end:
        instance, _ = cloud.boot(asked())
        agent.destroy(instance)
        # What comes and goes between two reports confirms no claim, which would wait for its end.
        with contextlib.suppress(errors.ClaimNotFound):
            cloud.claims.abort_claim(instance)
    assert disputes(caplog) == []


def test_a_server_that_moves_to_another_host_in_another_size(cloud):
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    instance, _ = cloud.boot(asked(vcpus=2))
    until(lambda: cloud.states(instance) == [('cmp1', 'confirmed')])
    cloud.agent('cmp2')
    until(lambda: len(cloud.ranking()) == 2)
    cloud.claims.instance_claim(asked(vcpus=4), instance, 'cmp2', 'cmp2')
    source, target = (AgentClient(cloud.bus, host) for host in ('cmp1', 'cmp2'))
    target.resize(asked(vcpus=4), instance)
    both = [('cmp1', 'confirmed'), ('cmp2', 'confirmed')]
    until(lambda: sorted(cloud.states(instance)) == both)
    assert [one['vm_state'] for one in target.instances()] == ['resized']
    source.destroy(instance)
    target.confirm_resize(instance)
    until(lambda: cloud.states(instance) == [('cmp2', 'confirmed')])
    assert (cloud.instances('cmp1'), cloud.instances('cmp2')) == ([], [instance])


def test_a_server_that_would_have_moved(cloud):
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    instance, _ = cloud.boot(asked(vcpus=2))
    until(lambda: cloud.states(instance) == [('cmp1', 'confirmed')])
    cloud.agent('cmp2')
    until(lambda: len(cloud.ranking()) == 2)
    cloud.claims.instance_claim(asked(vcpus=4), instance, 'cmp2', 'cmp2')
    target = AgentClient(cloud.bus, 'cmp2')
    target.resize(asked(vcpus=4), instance)
    until(lambda: ('cmp2', 'confirmed') in cloud.states(instance))  # or its caller aborts it
    target.revert_resize(instance)
    until(lambda: cloud.states(instance) == [('cmp1', 'confirmed')])
    assert (cloud.instances('cmp1'), cloud.instances('cmp2')) == ([instance], [])


def test_a_late_call_that_names_another_claim(cloud):
    cloud.agent('cmp1')
    agent, instance = AgentClient(cloud.bus, 'cmp1'), str(uuid.uuid4())
    first, second, earlier = (str(uuid.uuid4()) for _ in range(3))
    agent.build(asked(vcpus=2), instance, claim=first)
    agent.resize(asked(vcpus=4), instance, claim=second)
    for call in (agent.confirm_resize, agent.revert_resize):
        with pytest.raises(errors.NotFound):
            call(instance, claim=earlier)
    assert not agent.destroy(instance, claim=earlier)
    agent.revert_resize(instance, claim=second)
    assert [one['claim_uuid'] for one in agent.instances()] == [first]
    assert agent.destroy(instance, claim=first)


@pytest.mark.parametrize('settle, left', [('confirm_resize', 2), ('revert_resize', 5)])
def test_a_server_that_gets_another_size_where_it_is(cloud, settle, left):
    """The node reports what both sizes need, and then what is left of them."""
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    agent, instance = AgentClient(cloud.bus, 'cmp1'), str(uuid.uuid4())
    agent.build(asked(vcpus=3), instance)
    agent.resize(asked(vcpus=6), instance)
    until(lambda: not cloud.takes(vcpus=3))
    getattr(agent, settle)(instance)
    until(lambda: cloud.takes(vcpus=left))
    assert not cloud.takes(vcpus=left + 1)


def test_an_agent_that_restarts_keeps_its_servers(cloud):
    cloud.scheduler()
    agent = cloud.agent('cmp1')
    until(cloud.takes)
    instance, _ = cloud.boot(asked())
    until(lambda: cloud.states(instance) == [('cmp1', 'confirmed')])
    cloud.stop(agent)
    cloud.agent('cmp1')
    assert cloud.instances('cmp1') == [instance]
    AgentClient(cloud.bus, 'cmp1').destroy(instance)
    until(lambda: cloud.states(instance) == [])


def test_a_node_of_another_host_is_refused_and_the_agent_goes_on(cloud, caplog, tmp_path):
    cloud.scheduler()
    cloud.agent('cmp1')
    until(cloud.takes)
    cloud.agent('cmp2', uuid_file=tmp_path / 'cmp1' / 'compute_id')
    until(lambda: 'The scheduler refuses' in caplog.text)
    until(lambda: cloud.instances('cmp2') == [])
    time.sleep(2.5)  # some more reports
    refusals = [
        record.getMessage() for record in caplog.records if 'refuses' in record.getMessage()
    ]
    owned = 'host cmp2 reports it, but it belongs to host cmp1, which is up'
    assert refusals == [f'The scheduler refuses: Report of node cmp2 refused, host: {owned}']


@pytest.mark.parametrize(
    'call, error',
    [
        pytest.param(
            lambda agent: agent.build(None, str(uuid.uuid4())), errors.InvalidRequest, id='no spec'
        ),
        pytest.param(lambda agent: agent.build(asked(), 'x'), errors.InvalidRequest, id='no UUID'),
        pytest.param(
            lambda agent: agent.finish(str(uuid.uuid4())), errors.NotFound, id='not here'
        ),
        pytest.param(
            lambda agent: agent.resize(None, str(uuid.uuid4())),
            errors.InvalidRequest,
            id='no size',
        ),
        pytest.param(
            lambda agent: agent.confirm_resize(str(uuid.uuid4())),
            errors.NotFound,
            id='no resize to confirm',
        ),
        pytest.param(
            lambda agent: agent.revert_resize(str(uuid.uuid4())),
            errors.NotFound,
            id='no resize to revert',
        ),
        pytest.param(
            lambda agent: agent.revert_resize('x'), errors.InvalidRequest, id='no UUID to revert'
        ),
        pytest.param(lambda agent: agent.destroy(5), errors.InvalidRequest, id='a number'),
        pytest.param(
            lambda agent: agent.destroy(str(uuid.uuid4()), claim='x'),
            errors.InvalidRequest,
            id='no UUID of a claim',
        ),
    ],
)
def test_what_an_agent_cannot_do(cloud, call, error):
    cloud.agent('cmp1')
    agent = AgentClient(cloud.bus, 'cmp1')
    with pytest.raises(error):
        call(agent)
    assert agent.instances() == []


def test_a_build_that_goes_on(cloud):
    cloud.agent('cmp1')
    agent, instance = AgentClient(cloud.bus, 'cmp1'), str(uuid.uuid4())
    agent.build(asked(), instance, finished=False)
    assert [one['vm_state'] for one in agent.instances()] == ['building']
    agent.finish(instance)
    assert [one['vm_state'] for one in agent.instances()] == ['active']
    assert (agent.destroy(instance), agent.destroy(instance)) == (True, False)


def test_the_interval_is_reloaded_unless_it_makes_no_sense(cloud, conf, caplog, tmp_path):
    caplog.set_level(logging.INFO)
    cloud.scheduler()
    cloud.agent('cmp1')
    until(lambda: 'Reporting node cmp1 each 1 s' in caplog.text)
    write(tmp_path, 'soon')
    conf.mutate_config_files()
    until(lambda: 'reporting each 1 s as before' in caplog.text)
    time.sleep(2.5)  # some more reports
    assert caplog.text.count('as before') == 1
    write(tmp_path, 2)
    conf.mutate_config_files()
    until(lambda: 'Reporting node cmp1 each 2 s' in caplog.text)


def test_the_agent_of_this_machine(cloud, conf):
    cloud.scheduler()
    cloud.this_machine()
    until(lambda: cloud.takes(vcpus=1))
    instance, host = cloud.boot(asked(vcpus=1))
    assert host == conf.host
    until(lambda: cloud.states(instance) == [(host, 'confirmed')])


def test_cpus_of_a_cell_are_claimed_pinned_reported_and_given_back(cloud):
    CONF.set_override('enabled_filters', ['NUMATopologyFilter'], group='filter_scheduler')
    cloud.scheduler()
    cloud.agent('a', cpu_dedicated_set='4-7')
    pair = asked(**DEDICATED)
    for name, value in spec_fields(wanted(dedicated(2))).items():
        setattr(pair, name, value)
    until(lambda: cloud.places(pair))
    (first, _), (second, _) = cloud.boot(pair), cloud.boot(pair)
    cells = {one: cloud.claims.show(one)[0].numa_topology.cells for one in (first, second)}
    assert {(cell.id, *sorted(cell.cpu_pinning.values())) for (cell,) in cells.values()} == {
        (0, 4, 5),
        (1, 6, 7),
    }
    # The agent has pinned the same, and says so: nothing is held twice, and nothing is left.
    until(lambda: [cloud.states(one) for one in (first, second)] == [[('a', 'confirmed')]] * 2)
    assert not cloud.places(pair)
    AgentClient(cloud.bus, 'a').destroy(first)
    until(lambda: cloud.places(pair))
    third, _ = cloud.boot(pair)
    assert cloud.claims.show(third)[0].numa_topology.cells[0].id == cells[first][0].id
