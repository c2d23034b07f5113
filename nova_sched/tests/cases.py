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
"""How much each run of the tests tries. ``NOVA_SCHED_CASES`` says it:

* nothing, as in `tools/test`: an eighth of the random cases, each value of a parameter once, one
  of several databases for each test, and not what is marked with ``ONLY_WHOLE``;
* ``whole``, as in `tools/test everything`: a third of the random cases, and all databases;
* ``thorough``, as in `tools/test thorough`: all random cases, and each value of a parameter with
  each; also what is marked with ``ONLY_THOROUGH``.
"""

import os
import zlib

import pytest

LEVEL = os.environ.get('NOVA_SCHED_CASES', '')
IS_THOROUGH, IS_BRIEF = LEVEL == 'thorough', LEVEL == ''
ONLY_THOROUGH, ONLY_WHOLE = pytest.mark.thorough, pytest.mark.whole
SHARE = 8 if IS_BRIEF else 3  # of the random cases, one is tried
DATABASES = ('mariadb', 'postgresql')
# What the gate leaves out because it takes longest: parts of the addresses of tests.
LONG = (
    'explorer/test_explorer.py::test_a_rule_that_is_taken_out_is_missed[_check_moves',
    'explorer/test_explorer.py::test_a_rule_that_is_taken_out_is_missed[moved',
    'functional/test_demo.py',
    'functional/test_manage_imports.py',
    'integration/test_agent.py::test_an_agent_outlives_its_broker',
    'integration/test_direct_server.py::test_a_broker_that_takes_no_messages_for_a_while',
    'integration/test_direct_server.py::test_a_message_that_expands_without_end_costs_itself',
    'integration/test_direct_wire.py::test_the_same_queues_are_declared',
    'integration/test_group_crowd.py::test_two_schedulers_that_die_in_between',
    'integration/test_limits.py::test_a_silent_server_is_noticed',
    'integration/test_outage.py::test_calls_are_answered_when_the_broker_is_back',
    'integration/test_plugins.py::test_the_commands_of_the_page',
    'integration/test_queue_broker.py::test_all_is_there_after_a_restart',
    'integration/test_queue_crowd.py',
    'integration/test_queue_story.py',
    'integration/test_queues.py::test_a_broker_that_restarts',
    'integration/test_rebalance.py',
    'integration/test_rebalance_standstill.py',
    'integration/test_reload.py::test_no_call_waits_for_a_reload',
    'integration/test_time.py::test_clocks_that_are_an_hour_off',
    'integration/test_two_schedulers.py::test_one_that_is_stopped_leaves_nothing_behind',
    'integration/test_upgrade.py::test_a_job_that_waited_is_done',
    'integration/test_vanish.py',
    'integration/test_warm.py::test_it_is_a_copy_where_it_would_import_the_same[other packages',
    'unit/extensions/optimize/packing/test_tables.py::test_a_share_takes_the_best_device',
    'unit/extensions/optimize/rebalance/test_exact.py::test_no_rule_breaks',
    'unit/extensions/simulator/test_cmd.py::test_a_replay_by_several_policies',
    'unit/extensions/simulator/test_cmd.py::test_a_search_for_the_fewest_hosts',
    'unit/extensions/simulator/test_storm.py::test_a_fault_planted_in_the_reader_of_nova_is_found',
    'unit/extensions/simulator/test_storm.py::test_a_planted_fault_is_found[a claim has',
    'unit/extensions/simulator/test_storm.py::test_a_planted_fault_is_found[a full node',
    'unit/extensions/simulator/test_storm.py::test_a_planted_fault_is_found[a resize keeps',
    'unit/extensions/simulator/test_storm.py::test_a_planted_fault_is_found[and count twice',
    'unit/extensions/simulator/test_storm.py::test_a_planted_fault_is_found[new pieces',
    'unit/extensions/simulator/test_storm.py::test_a_planted_fault_is_found[the group',
    'unit/extensions/simulator/test_storm.py::test_a_planted_fault_is_found[the source',
    'unit/extensions/simulator/test_storm.py::test_some_seeds_of_a_nova_cloud',
)


def cases(count):
    """Return how many of ``count`` cases to try, at least one."""
    return count if IS_THOROUGH else max(count // SHARE, 1)


def deselect(config, items):
    """Leave out what this run does not try."""
    left_out = [item for item in items if _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def _is_left_out(item):
    if item.get_closest_marker(ONLY_THOROUGH.name):
        return not IS_THOROUGH
    return IS_BRIEF and (
        item.get_closest_marker(ONLY_WHOLE.name)
        or any(part in item.nodeid for part in LONG)
        or not _is_its_database(item)
    )


def _is_its_database(item):
    """Whether the test has no database among its parameters, or the one that is tried briefly.

    The name of a test decides, so that each run tries the same, and each database has its half.
    """
    given = item.callspec.params.values() if hasattr(item, 'callspec') else ()
    wanted = DATABASES[zlib.crc32(item.nodeid.partition('[')[0].encode()) % len(DATABASES)]
    return not any(one in DATABASES and one != wanted for one in given if isinstance(one, str))
