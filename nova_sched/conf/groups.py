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
"""Options of groups of servers that are planned before the first server exists."""

from oslo_config import cfg

GROUPS_OPTS = [
    cfg.IntOpt(
        'plan_ttl',
        default=3600,
        min=1,
        mutable=True,
        help='Seconds for which the hosts of a planned group are held. A member that is not '
        'created by then loses its place, unless the plan is renewed; the group itself '
        'stays. Must be longer than it takes to create all members, from the first to '
        'the last. A caller may ask for another time.',
    ),
    cfg.IntOpt(
        'plan_ttl_max',
        default=86400,
        min=1,
        mutable=True,
        help='Seconds that a caller may ask for in place of plan_ttl. A longer time is refused.',
    ),
    cfg.IntOpt(
        'plan_life_max',
        default=604800,
        min=1,
        mutable=True,
        help='Seconds after which the claim of a planned member ends, however often the plan is '
        'renewed or updated. A member that is planned on another host has a new claim.',
    ),
    cfg.IntOpt(
        'plan_attempts',
        default=5,
        min=1,
        mutable=True,
        help='Times that a group is planned again because another request took a chosen '
        'host in the meantime.',
    ),
    cfg.IntOpt(
        'max_members',
        default=1000,
        min=1,
        mutable=True,
        help='Members that one group may have. A larger group is refused.',
    ),
    cfg.FloatOpt(
        'read_seconds',
        default=2.0,
        min=0.1,
        mutable=True,
        help='Seconds of processor time to read a template and to make requests of its members. '
        'A separate process reads it, while other requests are decided. A template that takes '
        'longer is refused; one within the limits of size takes a small part of it.',
    ),
    cfg.StrOpt(
        'flavors',
        mutable=True,
        help='YAML file of the flavors that templates may name: a mapping from the name to '
        '`vcpus`, `ram` (or `memory_mb`, MiB), `disk` (or `root_gb`), `ephemeral` '
        '(GiB), `swap` (MiB) and `extra_specs`. Flavors in a request override those of '
        'the file. It is read again when it changes. Without a file, templates '
        'describe their flavors inline, or requests include them. Extra specs that are '
        'for operators are accepted from others only if the flavor of that name has the '
        'same ones here.',
    ),
    cfg.BoolOpt(
        'solver',
        default=True,
        mutable=True,
        help='Use a constraint solver (OR-Tools CP-SAT, in a separate process) where the '
        'quick search finds no placement, and to improve placements. Without it some '
        'groups are refused that could be placed, and a refusal does not say which '
        'policies collide.',
    ),
    cfg.IntOpt(
        'solver_nice',
        default=10,
        min=0,
        max=19,
        help='How much less of a busy processor the process of the solver gets than the '
        'scheduler itself, as in nice(1): groups that are hard to place then hardly slow '
        'the decisions of other requests. Read at the start.',
    ),
    cfg.FloatOpt(
        'greedy_seconds',
        default=0.2,
        min=0.0,
        mutable=True,
        help='Seconds of processor time for the quick search of a group of up to 100 members; '
        'larger groups have proportionally more. The first attempt is always completed. '
        'Most groups take a small part of it. Limits of processor time make a busy '
        'machine give the same answers as an idle one, later; each of them also ends '
        'after five times as many seconds of time.',
    ),
    cfg.FloatOpt(
        'repair_seconds',
        default=1.0,
        min=0.0,
        mutable=True,
        help='Seconds of processor time, of each of its two threads, for the solver to find a '
        'placement where the quick search found none, or to prove that there is none.',
    ),
    cfg.FloatOpt(
        'improve_seconds',
        default=1.0,
        min=0.0,
        mutable=True,
        help='Seconds of processor time, of each of its two threads, for the solver to improve '
        'a placement that breaks preferred policies or moves servers. It ends as soon as '
        'there is nothing to gain, or after a quarter of this time without a better '
        'placement. 0 takes the first placement.',
    ),
    cfg.BoolOpt(
        'improve_weights',
        default=False,
        mutable=True,
        help='Let the solver also look for hosts with more weight, for every group. The answer '
        'to each creation then takes up to `improve_seconds` longer, for hosts whose '
        'weights are higher by one or two percent.',
    ),
    cfg.FloatOpt(
        'explain_seconds',
        default=2.0,
        min=0.0,
        mutable=True,
        help='Seconds of processor time to find out why a group cannot be placed: which '
        'policies collide, and how many members would fit.',
    ),
]
OPTS = {'groups': GROUPS_OPTS}
