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
"""Tests of what the configuration makes of an agent."""

import dataclasses
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_sched import errors
from nova_sched.conf import base, filter_scheduler
from nova_sched.extensions.agent import AgentSettings
from nova_sched.extensions.agent import conf as agent
from nova_sched.extensions.agent import daemon as agent_service
from nova_sched.tests.rows import each_afresh, table


@pytest.fixture
def settings(tmp_path):
    """The settings that lines of the [agent] group make; state is kept in ``tmp_path/state``."""

    def read(*lines):
        file = tmp_path / 'agent.conf'
        plain = ['[DEFAULT]', 'host = cmp1', '[agent]', f'state_path = {tmp_path}/state']
        file.write_text('\n'.join([*plain, *lines]))
        conf = cfg.ConfigOpts()
        agent.register_opts(conf)
        conf.register_opts(base.DEFAULT_OPTS)
        conf.register_opts(filter_scheduler.COMPUTE_OPTS, group='compute')
        conf(['--config-file', str(file)])
        return agent_service.settings(conf)

    return read


def test_without_options_the_defaults_of_the_settings_stand(settings, tmp_path):
    made = settings(f'instances_path = {tmp_path}')
    plain = AgentSettings(
        host='cmp1', uuid_file=tmp_path / 'state' / 'compute_id', instances_path=tmp_path
    )
    assert said(made) == said(plain)
    assert (tmp_path / 'state').is_dir()


def test_instances_are_next_to_the_state_if_nova_has_no_place_for_them(settings, tmp_path):
    expected = (
        agent_service.NOVA_INSTANCES
        if agent_service.NOVA_INSTANCES.is_dir()
        else tmp_path / 'state'
    )
    assert settings().instances_path == expected


def said(made):
    """Settings without those that are empty."""
    return {name: value for name, value in dataclasses.asdict(made).items() if value or value == 0}


@each_afresh(
    'line, name, value',
    {
        'nodename': ('nodename = node7', 'node', 'node7'),
        'host_ip': ('host_ip = 192.0.2.9', 'host_ip', '192.0.2.9'),
        'ratio': ('cpu_allocation_ratio = 0', 'cpu_allocation_ratio', 0.0),
        'reserved': ('reserved_host_memory_mb = 0', 'reserved_host_memory_mb', 0),
        'cpu_shared_set': ('cpu_shared_set = 0-3,^2', 'cpu_shared_set', '0-3,^2'),
        'cpu_dedicated_set': ('cpu_dedicated_set = 4-7', 'cpu_dedicated_set', '4-7'),
        'reserved_huge_pages': (
            (
                'reserved_huge_pages = node:0,size:2048,count:64\nreserved_huge_pages = '
                'node:1,size:1GB,count:2'
            ),
            'reserved_huge_pages',
            [
                {'node': '0', 'size': '2048', 'count': '64'},
                {'node': '1', 'size': '1GB', 'count': '2'},
            ],
        ),
        'device_spec': (
            'device_spec = {"vendor_id": "10de"}\ndevice_spec = [{"product_id": "154c"}, {}]',
            'device_spec',
            ['{"vendor_id": "10de"}', '[{"product_id": "154c"}, {}]'],
        ),
        'physnet_cells': (
            'physnet_cells = physnet0:[0],physnet1:[0,1]',
            'physnet_cells',
            {'physnet0': [0], 'physnet1': [0, 1]},
        ),
        'tunnel_cells': ('tunnel_cells = 0, 1', 'tunnel_cells', [0, 1]),
        'facts': ('facts = rack:r12,room:north', 'facts', {'rack': 'r12', 'room': 'north'}),
        'resources': (
            'resources = CUSTOM_GOLD:3, CUSTOM_FPGA:1',
            'resources',
            {'CUSTOM_GOLD': 3, 'CUSTOM_FPGA': 1},
        ),
        'traits': ('traits = CUSTOM_A, CUSTOM_B', 'traits', ['CUSTOM_A', 'CUSTOM_B']),
        'hypervisor_type': ('hypervisor_type = lxc', 'hypervisor_type', 'lxc'),
        'hypervisor_version': ('hypervisor_version = 8002001', 'hypervisor_version', 8002001),
        'metrics': ('metrics = true', 'metrics', True),
        'packing': (
            '[compute]\npacking_host_numa_cells_allocation_strategy = true',
            'packing',
            True,
        ),
    },
)
def test_an_option_becomes_a_setting(settings, line, name, value):
    assert getattr(settings(line), name) == value


def test_every_setting_has_an_option():
    """But for the places where the machine itself is read, and those with other names or in other
    groups."""
    elsewhere = {'host', 'node', 'uuid_file', 'sys_root', 'proc_root', 'kvm_device', 'packing'}
    assert {field.name for field in dataclasses.fields(AgentSettings)} - elsewhere <= {
        option.name for option in agent.OPTS
    }


@each_afresh(
    'line, where, why',
    {
        'no place': (
            'instances_path = /no/such/directory',
            '[agent] instances_path',
            '/no/such/directory',
        ),
        'no state': ('state_path = /dev/null/state', '[agent] state_path', '/dev/null/state'),
        'a measured resource': ('resources = VCPU:3', '[agent] resources', 'VCPU'),
    },
)
def test_what_cannot_be_is_told(settings, line, where, why):
    with pytest.raises(errors.BadConfig) as error:
        settings(line)
    assert error.value.where == where
    assert why in error.value.why


@each_afresh(
    'line',
    {
        'report_interval': 'report_interval = 0',
        'host_ip': 'host_ip = nowhere',
        'physnet_cells': 'physnet_cells = physnet0:0',
        'resources': 'resources = CUSTOM_GOLD:0',
        'tunnel_cells': 'tunnel_cells = -1',
    },
)
def test_a_value_of_the_wrong_kind_is_told(settings, line):
    with pytest.raises((cfg.Error, ValueError), match=line.split()[0]):
        settings(line)


@table(
    'root, there, path',
    {
        'root': (True, False, '/var/lib/nova-sched'),
        'an installed service': (False, True, '/var/lib/nova-sched'),
        'anybody on a laptop': (False, False, '/somewhere/nova-sched'),
    },
)
def test_where_state_is_kept_by_default(root, there, path):
    assert agent.state_path(root, there, Path('/somewhere')) == path
