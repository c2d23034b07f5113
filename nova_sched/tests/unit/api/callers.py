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
"""Those who call the API, and its configuration."""

from types import SimpleNamespace

from oslo_config import cfg
from oslo_policy import opts as policy_options

from nova_sched.api import app
from nova_sched.api.limits import Limits
from nova_sched.api.policies import AccessPolicy
from nova_sched.conf.api import API_OPTS
from nova_sched.rpc.client import ExplainClient, GroupsClient, QueuesClient, RebalancesClient

RED, BLUE = {'X-Auth-Token': 'ann:red'}, {'X-Auth-Token': 'bob:blue'}
ADMIN = {'X-Auth-Token': 'admin:operators'}


def configuration(**values):
    """Options of the API alone, as no file on this machine has a say in them; ``values`` are of
    [api]."""
    made = cfg.ConfigOpts()
    made.register_opts(API_OPTS, group='api')
    policy_options.set_defaults(made)
    made([], project='nova_sched', default_config_files=[], default_config_dirs=[])
    for name, value in {'auth_strategy': 'noauth', 'plan_rate': '', **values}.items():
        made.set_override(name, value, group='api')
    return made


def rest(
    conf,
    groups,
    queues,
    probe=None,
    facts=dict,
    rank=None,
    plan=None,
    rebalances=None,
    limits=None,
):
    """The REST API over these clients of the RPC namespaces `groups`, `queues` and `rebalances`;
    ``facts``, ``rank`` and ``plan`` are methods of `explain`."""
    explain = SimpleNamespace(rank_hosts=rank, plan_moves=plan, health=facts)
    clients = {
        GroupsClient: groups,
        QueuesClient: queues,
        ExplainClient: explain,
        RebalancesClient: rebalances,
    }
    probes = {**clients, GroupsClient: probe or groups}
    limits = limits or Limits(conf)
    return app.make(
        app.Api(
            conf,
            limits,
            AccessPolicy(conf),
            lambda kind, *_, **__: clients[kind],
            probes.__getitem__,
            database=None,
        )
    )
