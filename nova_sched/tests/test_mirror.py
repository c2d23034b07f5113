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
"""A module has its tests at its path: ``engine/cycle.py`` in ``unit/engine/test_cycle.py``."""

import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent

# Modules that are tested together, through what they make up: where their tests are, below tests/.
ELSEWHERE = {
    'errors.py': 'unit/rpc/test_failures.py',
    'api/app.py': 'functional/test_api.py',
    'api/views.py': 'functional/test_api.py',
    'api/dashboard_rules.py': 'functional/test_dashboard.py',
    'claim.py': 'unit/claims/contracts.py',
    # Every store runs the batteries of all contracts.
    'claims/changed_claims.py': 'unit/claims/contracts.py',
    'claims/values.py': 'unit/claims/contracts.py',
    'claims/memory.py': 'unit/claims/contracts.py',
    'claims/lifecycle.py': 'unit/claims/contracts.py',
    'claims/exclusive_domains.py': 'unit/claims/contracts.py',
    'claims/statements.py': 'unit/claims/contracts.py',
    'claims/plan_quota.py': 'unit/claims/contracts.py',
    'claims/sql_*.py': 'unit/claims/contracts.py',
    'claims/audit_*.py': 'unit/claims/test_audit.py',
    'claims/cloud_facts.py': 'unit/cmd/manage/test_rows.py',
    'claims/findings.py': 'unit/claims/test_audit.py',
    'claims/maintenance.py': 'integration/test_maintenance.py',
    'cloud/node_reader.py': 'unit/cloud/test_mirror.py',
    # Programs run as processes, the verbs against daemons.
    'cmd/api*.py': 'functional/test_api_daemon.py',
    'cmd/launcher.py': 'integration/test_reload.py',
    'cmd/status.py': 'functional/test_status.py',
    'cmd/queues.py': 'functional/test_queues_daemon.py',
    'rpc/event_outbox.py': 'unit/rpc/test_event_notifications.py',
    'rpc/copies.py': 'integration/test_copies.py',
    'shadow/service.py': 'integration/test_shadow.py',
    'cmd/sim_models.py': 'functional/test_sim_models.py',
    'cmd/manage/group_pages.py': 'unit/cmd/manage/test_group.py',
    'cmd/manage/specs.py': 'unit/cmd/manage/test_explain.py',
    'cmd/manage/queue.py': 'functional/test_manage_queue.py',
    'cmd/manage/job.py': 'functional/test_manage_queue.py',
    'cmd/manage/*.py': 'integration/test_manage_databases.py',
    'conf/*.py': 'unit/conf/test_options.py',
    'dashboard/*.py': 'functional/test_dashboard.py',
    'db/tables.py': 'unit/db/test_schema.py',
    'db/mixes.py': 'unit/db/test_shared_counts.py',
    'db/lifetimes.py': 'unit/db/test_shared_counts.py',
    'db/brief.py': 'unit/db/test_engine.py',
    'db/silence.py': 'integration/test_vanish.py',
    'db/clock.py': 'unit/db/test_bulk.py',
    'db/quotas.py': 'unit/db/test_jobs.py',
    'db/counting.py': 'unit/db/test_jobs.py',
    'engine/context.py': 'unit/engine/world.py',
    'engine/rebalance/*.py': 'unit/engine/rebalance/test_move_runner.py',
    'engine/writer.py': 'unit/engine/test_cycle_writer.py',
    'filters/different_host.py': 'unit/filters/test_same_host.py',
    'filters/image_traits.py': 'unit/filters/test_image_metadata.py',
    'filters/numa_topology.py': 'unit/engine/test_hardware.py',
    'filters/pci_passthrough.py': 'unit/engine/test_hardware.py',
    'filters/reasons.py': 'unit/filters/test_why.py',
    'groups/plan_limits.py': 'unit/groups/test_joint.py',
    'hardware/providers/request.py': 'unit/hardware/providers/test_fit.py',
    'heat/*.py': 'heat_engine/test_whole.py',  # they need Heat
    'objects/*.py': 'unit/objects/test_reference.py',
    'osc/*.py': 'functional/test_openstack_client.py',
    'packing/device_choice.py': 'unit/packing/test_tables.py',
    'packing/hardware_demand.py': 'unit/packing/test_machines.py',
    'packing/fleet.py': 'unit/packing/test_scores.py',
    'packing/host_states.py': 'unit/packing/test_tables.py',
    'packing/refresh.py': 'unit/packing/test_tables.py',
    'queues/fits/room.py': 'unit/queues/fits/test_fit.py',
    'queues/node/node_api.py': 'unit/queues/node/doubles.py',
    'queues/unified_limits.py': 'unit/queues/test_limits.py',
    'nova_service.py': 'functional/test_nova_source.py',
    'engine/planning/*.py': 'unit/engine/planning/test_move_planner.py',
    'rebalance/fleet.py': 'unit/rebalance/fleets.py',
    'rebalance/plan.py': 'unit/rebalance/test_emptying.py',
    'rebalance/room.py': 'unit/rebalance/test_emptying.py',
    'rpc/agent.py': 'functional/test_agent.py',
    'rpc/conductor.py': 'functional/test_agent.py',
    'rpc/direct/server.py': 'integration/test_direct_server.py',
    'rpc/endpoints/scheduler.py': 'functional/test_rpc_scheduler.py',
    'rpc/endpoints/stats.py': 'functional/test_rpc_stats.py',
    'rpc/endpoints/claims.py': 'functional/test_rpc_claims.py',
    'rpc/endpoints/candidates.py': 'functional/test_rpc_candidates.py',
    'rpc/endpoints/cloud.py': 'functional/test_nova_source.py',
    'rpc/endpoints/explain.py': 'functional/test_rpc_explain.py',
    'rpc/endpoints/groups.py': 'unit/rpc/test_groups.py',
    'rpc/endpoints/rebalances.py': 'functional/test_rpc_rebalances.py',
    'rpc/endpoints/queues.py': 'functional/test_queues.py',
    'rpc/moves.py': 'functional/test_rpc_rebalance.py',
    'rpc/servers.py': 'unit/rpc/test_serving.py',
    'sim/conductor.py': 'unit/sim/test_replay.py',
    'sim/fleet.py': 'functional/test_sim.py',
    'sim/inline.py': 'unit/sim/replays/test_run.py',
    'sim/mover.py': 'integration/test_rebalance.py',
    'sim/models/*.py': 'functional/test_sim_models.py',
    'sim/replays/workload.py': 'unit/sim/replays/test_run.py',
    'state/fields.py': 'unit/state/test_spec.py',
    'state/host_aggregate.py': 'unit/state/test_aggregates.py',
    'state/membership.py': 'unit/filters/test_server_group_affinity.py',
    'state/node.py': 'unit/state/test_cluster.py',
    'state/request.py': 'unit/state/test_spec.py',
    'weighers/*.py': 'unit/weighers/test_rules.py',
}

MODULES = [
    path.relative_to(PACKAGE)
    for path in sorted(PACKAGE.rglob('*.py'))
    if not {'tests', 'migrations'} & set(path.relative_to(PACKAGE).parts)
    and path.name != '__init__.py'
]


def has_tests_at_its_path(module):
    folder = TESTS / 'unit' / module.parent
    return bool([*folder.glob(f'test_{module.name}'), *folder.glob(f'test_{module.stem}_*.py')])


def patterns(module):
    return [one for one in ELSEWHERE if fnmatch.fnmatch(str(module), one)]


def test_a_module_has_its_tests_at_its_path():
    assert [
        str(module)
        for module in MODULES
        if not has_tests_at_its_path(module) and not patterns(module)
    ] == []


@pytest.mark.parametrize('pattern, path', ELSEWHERE.items(), ids=list(ELSEWHERE))
def test_the_exceptions_are_true(pattern, path):
    """Each names tests that are there, for modules that have none at their own path."""
    assert (TESTS / path).exists()
    assert any(
        pattern in patterns(module) for module in MODULES if not has_tests_at_its_path(module)
    )
