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
"""Options of the [scheduler] group, Nova's and the limits that protect the daemon; and of
[explain]: which decisions can be explained later, and for how long."""

from oslo_config import cfg

OSLO, DIRECT = 'oslo', 'direct'

SCHEDULER_OPTS = [
    cfg.IntOpt(
        'max_attempts',
        default=3,
        min=1,
        mutable=True,
        help='Attempts for one build or move. A decision has one fewer as alternates.',
    ),
    cfg.IntOpt(
        'workers',
        default=1,
        min=0,
        help='Scheduler processes of this daemon; 0 means one for each CPU. They share only '
        'the bus and the database. Nova starts one for each CPU by default. Here one '
        'process decides thousands of requests a second, and a second one mainly adds '
        'races.',
    ),
    cfg.StrOpt(
        'rpc_server',
        choices=[
            (DIRECT, 'a server for RabbitMQ: one thread answers messages in batches'),
            (OSLO, "oslo.messaging's server, on any transport"),
        ],
        help='The server that takes the calls of this daemon. Unless it is set, `direct` takes '
        'them on RabbitMQ, and `oslo` on another transport. Both use the same queues and '
        'messages, and the options of [oslo_messaging_rabbit] apply to both, so that daemons with '
        'either may serve one cloud. `direct` needs RabbitMQ, and takes less time for a call. It '
        'acknowledges a message after its answer was sent: a message that a killed daemon has '
        'taken goes to another one.',
    ),
    cfg.IntOpt(
        'discover_hosts_in_cells_interval',
        default=-1,
        min=-1,
        mutable=True,
        help='Seconds between two searches for compute hosts that are mapped to no cell, as Nova '
        'has it; 0 means 60, and -1 that `nova-manage cell_v2 discover_hosts` maps them. The '
        "account must be able to write to `host_mappings` in Nova's API database, and to "
        '`compute_nodes` in the cells. Only for the source `nova`.',
    ),
    cfg.IntOpt(
        'max_claim_attempts',
        default=10,
        min=1,
        mutable=True,
        help='Times that a request is decided again because another request took the chosen '
        'host first.',
    ),
    cfg.IntOpt(
        'max_instances_per_request',
        default=2000,
        min=1,
        mutable=True,
        help='Instances that one request may ask for. A request for more is refused.',
    ),
    cfg.IntOpt(
        'max_hints_size',
        default=65536,
        min=256,
        mutable=True,
        help='Characters that the scheduler hints of one request may have in all. A request '
        'with more is refused.',
    ),
    cfg.IntOpt(
        'max_batch',
        default=64,
        min=1,
        help='Waiting requests that are decided and claimed in one transaction.',
    ),
    cfg.BoolOpt(
        'limit_tenants_to_placement_aggregate',
        default=False,
        mutable=True,
        help="Keep the servers of a project to the hosts of the project's aggregates: those "
        'with the project as the value of a metadata key that starts with '
        '`filter_tenant_id`. A project without such an aggregate may use any host. '
        'AggregateMultiTenancyIsolation does the reverse: it keeps other projects out.',
    ),
    cfg.BoolOpt(
        'placement_aggregate_required_for_tenants',
        default=False,
        mutable=True,
        help='With limit_tenants_to_placement_aggregate: refuse projects that have no aggregate.',
    ),
    cfg.BoolOpt(
        'query_placement_for_image_type_support',
        default=False,
        mutable=True,
        help='Use only hosts with the trait COMPUTE_IMAGE_TYPE_<FORMAT> for the disk format '
        'of the image, unless the server boots from a volume. A format that has no '
        'such trait may go anywhere.',
    ),
    cfg.BoolOpt(
        'enable_isolated_aggregate_filtering',
        default=False,
        mutable=True,
        help='Keep the hosts of an aggregate with metadata `trait:NAME=required` for '
        'requests that require this trait, by flavor or image. If there are several '
        'such traits, all are needed.',
    ),
    cfg.BoolOpt(
        'image_metadata_prefilter',
        default=False,
        mutable=True,
        help='Use only hosts with the traits for the image properties hw_architecture, '
        'hw_emulation_architecture, hw_cdrom_bus, hw_disk_bus, hw_video_model, '
        'hw_vif_model. An image with a value that has no trait, such as any '
        'hw_viommu_model, may go anywhere.',
    ),
    cfg.BoolOpt(
        'query_placement_for_routed_network_aggregates',
        default=False,
        help='Use only hosts that reach the segments of the requested networks: those in the '
        'aggregates that Neutron makes for the segments of a routed network. For each call the '
        'scheduler then asks Neutron, with the account of the `[neutron]` section, and Placement. '
        'Only for the source `nova`.',
    ),
]
EXPLAIN_OPTS = [
    cfg.IntOpt(
        'retention',
        default=7 * 24 * 3600,
        min=0,
        mutable=True,
        help='Seconds for which the decision records are kept: what each filter saw and '
        'left, and why a request was refused. 0 keeps none. With [claims] store = '
        'memory each process keeps only its latest thousand.',
    ),
    cfg.FloatOpt(
        'sample',
        default=1.0,
        min=0.0,
        max=1.0,
        mutable=True,
        help='Share of the decisions that found a host that is recorded too, with the '
        'weights of the chosen host and of its alternates by each weigher: 0 is none, '
        '1 is all, up to `per_second`. Records of refusals are always kept.',
    ),
    cfg.FloatOpt(
        'per_second',
        default=100.0,
        min=0.1,
        mutable=True,
        help='Decisions that found a host of which each process records at most so many a '
        'second, on an average of ten seconds. It bounds what records cost under load.',
    ),
    cfg.IntOpt(
        'most_placed',
        default=1_000_000,
        min=0,
        mutable=True,
        help='Records of decisions that found a host which the database keeps at most, for all '
        'schedulers: the oldest go first. Each takes about 2 KiB. Refusals do not count.',
    ),
    cfg.StrOpt(
        'tell_callers',
        default='rules',
        choices=[
            ('rules', 'The rule that removed the last hosts, and the id of the request'),
            ('all', 'All rules that removed hosts, with numbers of hosts and free amounts'),
        ],
        mutable=True,
        help='What a conductor is told when its request finds no host. Nova shows this text '
        'to the owner of the server. The log and the decision record have everything in any '
        'case. Schedulers, and conductors that use queues, read this option.',
    ),
]
OPTS = {'scheduler': SCHEDULER_OPTS, 'explain': EXPLAIN_OPTS}
