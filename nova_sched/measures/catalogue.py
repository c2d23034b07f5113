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
"""The measures of all daemons of this repository. doc/source/metrics.rst describes each; a test
compares both."""

from nova_sched import extension
from nova_sched.measures import MAX, NEWEST, Counter, Gauge, Histogram, Measures

BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)

# Decisions.
DECISIONS = Counter(
    'nova_sched_decisions', 'Requests that were answered, by outcome.', ('outcome',)
)
INSTANCES_PLACED = Counter('nova_sched_instances_placed', 'Instances that got a host.')
CALL_SECONDS = Histogram(
    'nova_sched_call_seconds', 'Time of a request in the engine, by stage.', ('stage',)
)
BATCH_ORDERS = Histogram(
    'nova_sched_batch_orders', 'Requests that were decided together.', bounds=BATCHES
)
LOOP_HOLD = Gauge(
    'nova_sched_loop_longest_hold_seconds',
    'The longest time that one message has kept all others waiting, by kind.',
    ('kind',),
    MAX,
)
FILTER_SEEN = Counter(
    'nova_sched_filter_hosts_seen', 'Hosts that a filter had to judge.', ('filter',)
)
FILTER_LEFT = Counter('nova_sched_filter_hosts_left', 'Hosts that a filter left.', ('filter',))
RULE_SECONDS = Counter(
    'nova_sched_rule_sampled_seconds',
    'Time that a filter or weigher took in sampled decisions.',
    ('kind', 'rule'),
)
RULE_SAMPLES = Counter(
    'nova_sched_rule_samples',
    'Sampled decisions in which a filter or weigher ran.',
    ('kind', 'rule'),
)
CONFLICTS = Counter(
    'nova_sched_claim_conflicts', 'Requests whose claims lost to those of other requests.'
)
RETRIES = Counter('nova_sched_decision_retries', 'Requests that were decided again.')
RECORDS_LOST = Counter('nova_sched_decision_records_lost', 'Decision records that were not kept.')
RECORDS_SKIPPED = Counter(
    'nova_sched_decision_records_skipped', 'Placed requests of which no record was wanted.'
)
EVENTS_LOST = Counter('nova_sched_events_lost', 'Notifications of events that were not sent.')

# The host state and the store.
POLL_AGE = Gauge(
    'nova_sched_store_poll_age_seconds',
    'Time since the last poll of the store, of the process that waits longest.',
    merge=MAX,
)
STALE_NODES = Gauge(
    'nova_sched_stale_nodes', 'Nodes that differed from the store at the last poll.', merge=MAX
)
STORE_ERRORS = Counter('nova_sched_store_errors', 'Errors of the database, by kind.', ('kind',))
CLAIMS = Gauge('nova_sched_claims', 'Claims on all hosts, by state.', ('state',), NEWEST)
HOSTS = Gauge('nova_sched_hosts', 'Compute nodes, by state.', ('state',), NEWEST)
PLACES = ('resource_class', 'zone')
CAPACITY = Gauge(
    'nova_sched_capacity', 'Units that can be claimed, allocation ratio included.', PLACES, NEWEST
)
USAGE = Gauge('nova_sched_usage', 'Units that are used or claimed.', PLACES, NEWEST)
STRANDED = Gauge(
    'nova_sched_stranded',
    'Free units that exceed what the scarcest resource class of their host matches.',
    PLACES,
    NEWEST,
)
IN_AGGREGATE = ('resource_class', 'aggregate')
AGGREGATE_CAPACITY = Gauge(
    'nova_sched_aggregate_capacity',
    'Units of the hosts of an aggregate that can be claimed.',
    IN_AGGREGATE,
    NEWEST,
)
AGGREGATE_USAGE = Gauge(
    'nova_sched_aggregate_usage',
    'Units of the hosts of an aggregate that are used or claimed.',
    IN_AGGREGATE,
    NEWEST,
)
AGGREGATE_STRANDED = Gauge(
    'nova_sched_aggregate_stranded',
    'Stranded units of the hosts of an aggregate.',
    IN_AGGREGATE,
    NEWEST,
)

# Groups.
GROUP_PLANS = Counter(
    'nova_sched_group_plans',
    'Plans of groups, by result and by the stage that gave it.',
    ('result', 'stage'),
)
GROUP_PLAN_SECONDS = Histogram(
    'nova_sched_group_plan_seconds', 'Time to plan a group and to claim the plan.', ('result',)
)

# Jobs and queues.
JOBS = Gauge('nova_sched_jobs', 'Jobs in the database, by state.', ('state',), NEWEST)
QUEUES = Gauge('nova_sched_queues', 'Queues in the catalogue.', (), NEWEST)
JOBS_ENDED = Counter(
    'nova_sched_jobs_ended', 'Jobs that a manager settled, by outcome.', ('outcome',)
)
NODE_JOBS = Counter(
    'nova_sched_node_jobs', 'What the worker of a node did with jobs, by event.', ('event',)
)

# The bus and the other services.
BUS_RETRIES = Counter(
    'nova_sched_bus_reconnects', 'Attempts to reach the bus again after it did not answer.'
)
REPORTS = Counter('nova_sched_reports', 'Reports of an agent, by result.', ('result',))
REPORT_SECONDS = Histogram('nova_sched_report_seconds', 'Time until a report was answered.')
API_REQUESTS = Counter(
    'nova_sched_api_requests', 'Requests to the REST API.', ('operation', 'status')
)
API_SECONDS = Histogram(
    'nova_sched_api_request_seconds', 'Time of requests to the REST API.', ('operation',)
)

# A scheduler that reads its hosts from Nova.
PLACEMENT_REQUESTS = Counter(
    'nova_sched_placement_requests',
    'Requests to Placement, by method and result.',
    ('method', 'result'),
)
PLACEMENT_SECONDS = Histogram(
    'nova_sched_placement_request_seconds', 'Time of requests to Placement.', ('method',)
)
CELL_AGE = Gauge(
    'nova_sched_cell_look_age_seconds',
    'Time since the last poll of a cell of Nova, of the process that waits longest.',
    ('cell',),
    MAX,
)
HOSTS_LEFT_OUT = Gauge(
    'nova_sched_hosts_left_out',
    'Hosts and cells that get no servers for lack of facts.',
    (),
    NEWEST,
)

MEASURES = Measures(
    [
        value
        for value in list(globals().values())
        if isinstance(value, Counter | Gauge | Histogram)
    ],
    lambda: [one for _, some in extension.offered(list, 'measures') for one in some],
)
