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
"""The options: all of them are listed, and those of Nova are as in Nova."""

import pathlib
import pkgutil

import pytest
from oslo_config import cfg, generator

from nova_sched import conf
from nova_sched.conf import CONF, claims, cluster, quota, ratios, services
from nova_sched.tests.options import settings
from nova_sched.tests.packages import install
from nova_sched.tests.rows import each

for _group in services.OPTS:
    services.register_keystone_opts(CONF, _group)
LISTED = [(group, option) for group, options in conf.list_opts() for option in options]

ALL_FILTERS = ['nova.scheduler.filters.all_filters']
ALL_WEIGHERS = ['nova.scheduler.weights.all_weighers']
ENABLED_FILTERS = [
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
]
TOPICS = ['versioned_notifications']
# Group, name, type, default and least value of Nova's options, as in nova 34.0.0.
NOVAS = [
    ('api_database', 'connection', cfg.StrOpt, None, None),
    ('scheduler', 'max_attempts', cfg.IntOpt, 3, 1),
    ('scheduler', 'discover_hosts_in_cells_interval', cfg.IntOpt, -1, -1),
    ('filter_scheduler', 'host_subset_size', cfg.IntOpt, 1, 1),
    ('filter_scheduler', 'track_instance_changes', cfg.BoolOpt, True, None),
    ('filter_scheduler', 'available_filters', cfg.MultiStrOpt, ALL_FILTERS, None),
    ('filter_scheduler', 'enabled_filters', cfg.ListOpt, ENABLED_FILTERS, None),
    ('filter_scheduler', 'weight_classes', cfg.ListOpt, ALL_WEIGHERS, None),
    ('filter_scheduler', 'ram_weight_multiplier', cfg.FloatOpt, 1.0, None),
    ('filter_scheduler', 'cpu_weight_multiplier', cfg.FloatOpt, 1.0, None),
    ('filter_scheduler', 'disk_weight_multiplier', cfg.FloatOpt, 1.0, None),
    ('filter_scheduler', 'io_ops_weight_multiplier', cfg.FloatOpt, -1.0, None),
    ('filter_scheduler', 'soft_affinity_weight_multiplier', cfg.FloatOpt, 1.0, 0.0),
    ('filter_scheduler', 'soft_anti_affinity_weight_multiplier', cfg.FloatOpt, 1.0, 0.0),
    ('filter_scheduler', 'hypervisor_version_weight_multiplier', cfg.FloatOpt, 1.0, None),
    ('filter_scheduler', 'num_instances_weight_multiplier', cfg.FloatOpt, 0.0, None),
    ('filter_scheduler', 'pci_weight_multiplier', cfg.FloatOpt, 1.0, 0.0),
    ('filter_scheduler', 'build_failure_weight_multiplier', cfg.FloatOpt, 1000000.0, None),
    ('filter_scheduler', 'cross_cell_move_weight_multiplier', cfg.FloatOpt, 1000000.0, None),
    ('filter_scheduler', 'image_props_weight_multiplier', cfg.FloatOpt, 0.0, None),
    ('filter_scheduler', 'image_props_weight_setting', cfg.ListOpt, [], None),
    ('scheduler', 'limit_tenants_to_placement_aggregate', cfg.BoolOpt, False, None),
    ('scheduler', 'placement_aggregate_required_for_tenants', cfg.BoolOpt, False, None),
    ('compute', 'packing_host_numa_cells_allocation_strategy', cfg.BoolOpt, False, None),
    ('filter_scheduler', 'max_io_ops_per_host', cfg.IntOpt, 8, 0),
    ('filter_scheduler', 'max_instances_per_host', cfg.IntOpt, 50, 1),
    ('filter_scheduler', 'isolated_images', cfg.ListOpt, [], None),
    ('filter_scheduler', 'isolated_hosts', cfg.ListOpt, [], None),
    ('filter_scheduler', 'restrict_isolated_hosts_to_isolated_images', cfg.BoolOpt, True, None),
    ('filter_scheduler', 'aggregate_image_properties_isolation_namespace', cfg.StrOpt, None, None),
    ('filter_scheduler', 'aggregate_image_properties_isolation_separator', cfg.StrOpt, '.', None),
    ('scheduler', 'query_placement_for_image_type_support', cfg.BoolOpt, False, None),
    ('scheduler', 'query_placement_for_routed_network_aggregates', cfg.BoolOpt, False, None),
    ('notifications', 'notification_format', cfg.StrOpt, 'unversioned', None),
    ('notifications', 'versioned_notifications_topics', cfg.ListOpt, TOPICS, None),
    ('notifications', 'scheduler_events', cfg.ListOpt, [], None),
    ('scheduler', 'enable_isolated_aggregate_filtering', cfg.BoolOpt, False, None),
    ('scheduler', 'image_metadata_prefilter', cfg.BoolOpt, False, None),
    ('workarounds', 'disable_fallback_pcpu_query', cfg.BoolOpt, False, None),
    ('pci', 'alias', cfg.MultiStrOpt, [], None),
    ('metrics', 'weight_multiplier', cfg.FloatOpt, 1.0, None),
    ('metrics', 'weight_setting', cfg.ListOpt, [], None),
    ('metrics', 'required', cfg.BoolOpt, True, None),
    ('metrics', 'weight_of_unavailable', cfg.FloatOpt, -10000.0, None),
    ('filter_scheduler', 'shuffle_best_same_weighed_hosts', cfg.BoolOpt, False, None),
    ('filter_scheduler', 'image_properties_default_architecture', cfg.StrOpt, None, None),
    ('DEFAULT', 'default_availability_zone', cfg.StrOpt, 'nova', None),
    ('DEFAULT', 'service_down_time', cfg.IntOpt, 60, None),
]
# Ours alone: here Nova has another default (workers, state_path), the same one by another way
# (host), or no such option.
OURS = {
    *(('DEFAULT', name) for name in ('host', 'report_interval', 'service_backend', 'state_path')),
    ('filter_scheduler', 'exit_time_weight_multiplier'),
    ('filter_scheduler', 'fragmentation_weight_multiplier'),
    ('filter_scheduler', 'keep_empty'),
    ('scheduler', 'workers'),
    ('scheduler', 'rpc_server'),
    ('scheduler', 'max_claim_attempts'),
    ('scheduler', 'max_instances_per_request'),
    ('scheduler', 'max_hints_size'),
    ('scheduler', 'max_batch'),
}
OWN_GROUPS = set(
    'agent api candidates claims cluster dashboard database_limits explain groups metrics_export '
    'queues quota rebalance shadow stats topology tracing'.split()
)
OWN_GROUPS |= {'neutron', 'nova_api', 'placement'}  # all or most are those of keystoneauth


@each(
    'group, name, kind, default, least',
    [pytest.param(*row, id=f'{row[0]}.{row[1]}') for row in NOVAS],
)
def test_an_option_of_nova_is_as_in_nova(group, name, kind, default, least):
    (option,) = [option for where, option in LISTED if (where, option.name) == (group, name)]
    assert (type(option), option.default) == (kind, default)
    if least is not None:
        assert option.type.min == least


def test_every_option_is_novas_or_named_as_ours():
    known = {(group, name) for group, name, *_ in NOVAS} | OURS
    assert {(group, option.name) for group, option in LISTED if group not in OWN_GROUPS} == known


def test_every_file_of_options_is_listed():
    files = {info.name for info in pkgutil.iter_modules(conf.__path__)}
    assert {module.__name__.rpartition('.')[2] for module in conf.OWN} == files
    extensions = (pathlib.Path(conf.__file__).parents[1] / 'extensions').glob('*/conf.py')
    assert {module.__name__ for module in conf.EXTENSION_MODULES} == {
        f'nova_sched.extensions.{file.parent.name}.conf' for file in extensions
    }


def test_what_is_registered_is_listed():
    fresh = cfg.ConfigOpts()
    conf.register_opts(fresh)
    for group in services.OPTS:
        services.register_keystone_opts(fresh, group)
    registered = {
        (group, name)
        for group, options in fresh._groups.items()  # oslo.config has no public accessor
        for name in options._opts
        if group != 'database'
    }
    registered |= {('DEFAULT', name) for name in fresh._opts}
    of_oslo = {'config_file', 'config_dir', 'config_source', 'shell_completion'}
    listed = {(str(group), option.dest) for group, option in LISTED}
    assert registered - {('DEFAULT', name) for name in of_oslo} == listed


def test_a_caller_of_list_opts_cannot_change_the_options():
    conf.list_opts()[0][1][0].help = 'changed'
    assert conf.list_opts()[0][1][0].help != 'changed'


def test_the_sample_names_no_machine(capsys):
    """What was found out on the machine where the sample was made would be wrong on all others."""
    import socket

    generator.main(['--namespace', 'nova_sched'])
    sample = capsys.readouterr().out
    assert '#host = <current_hostname>' in sample
    assert f'#host = {socket.gethostname()}' not in sample


LISTS = 'def list_opts():\n    return [("filter_scheduler", []), (None, [])]\n'


BOTH = ['filter_scheduler', 'DEFAULT']


@pytest.mark.parametrize(
    'name, group, source, listed',
    [
        ('opts_a', 'nova_sched__filters', LISTS, BOTH),
        ('opts_b', 'nova_sched__weighers', LISTS, BOTH),
        ('opts_c', 'console_scripts', LISTS, []),  # without rules
        ('opts_d', 'nova_sched__filters', '1 / 0', []),
    ],
)
def test_options_of_packages_with_rules(
    monkeypatch, tmp_path, caplog, name, group, source, listed
):
    monkeypatch.syspath_prepend(tmp_path)
    points = {'oslo__config__opts': {name: f'{name}:list_opts'}, group: {'A': f'{name}:A'}}
    install(tmp_path, name, source, **points)
    assert [group for group, _ in conf.plug_in_opts()] == listed
    assert (f'The options of plug-in {name} cannot be read' in caplog.text) == (source != LISTS)


@each(
    'given, driver',
    [
        ('table', quota.TABLE),
        ('nova.quota.NoopQuotaDriver', quota.NONE),
        ('nova.quota.DbQuotaDriver', quota.TABLE),
        ('nova.quota.UnifiedLimitsDriver', quota.KEYSTONE),
    ],
)
def test_the_quota_drivers_of_nova_are_understood(given, driver):
    with settings({'quota.driver': given}):
        assert CONF.quota.driver == driver


NOVA_CONF, STATE = {'api_database.connection': 'x://'}, {'default.state_path': '/s'}


@each(
    'options, reads, connection',
    [
        ({}, False, 'sqlite:////d'),
        ({'claims.connection': 'sqlite:////c'}, False, 'sqlite:////c'),
        ({**NOVA_CONF, **STATE}, True, 'sqlite:////s/nova-sched.sqlite'),
        ({**NOVA_CONF, 'claims.connection': 'sqlite:////c'}, True, 'sqlite:////c'),
        ({**NOVA_CONF, 'cluster.source': 'reports'}, False, 'sqlite:////d'),
        ({'cluster.source': 'nova', **STATE}, True, 'sqlite:////s/nova-sched.sqlite'),
    ],
)
def test_the_database_of_claims(options, reads, connection):
    with settings({'database.connection': 'sqlite:////d', **options}):
        assert cluster.reads_nova(CONF) is reads
        assert claims.connection(CONF) == connection


BAD = ['a', 'a=', '=1', 'a=x', 'a=1=2']


@each(
    'items, found, bad',
    [
        ([], (), []),
        (['a=1.5', 'b=-2'], (('a', 1.5), ('b', -2.0)), []),
        (['a=1', 'a=2'], (('a', 1.0), ('a', 2.0)), []),
        (['a= 0.5'], (('a', 0.5),), []),
        ([*BAD, 'b=1'], (('b', 1.0),), BAD),
        (['a=nan', 'b=inf'], (), ['a=nan', 'b=inf']),
    ],
)
def test_ratios(caplog, items, found, bad):
    with settings({'metrics.weight_setting': items}):
        assert ratios('metrics', 'weight_setting') == found
        warning = (
            f'[metrics] weight_setting has items that do not read name=ratio: {", ".join(bad)}'
        )
        assert [record.getMessage() for record in caplog.records] == ([warning] if bad else [])
        caplog.clear()
        assert ratios('metrics', 'weight_setting') == found
        assert not caplog.records


def test_the_option_is_read_each_time():
    with settings({'filter_scheduler.image_props_weight_setting': ['a=1']}):
        assert ratios('filter_scheduler', 'image_props_weight_setting') == (('a', 1.0),)
    assert ratios('filter_scheduler', 'image_props_weight_setting') == ()
