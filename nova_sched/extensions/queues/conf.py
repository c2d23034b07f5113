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
"""Options of the [queues] group: compute nodes that take jobs from queues."""

from oslo_config import cfg

CLASSIC, QUORUM = 'classic', 'quorum'

GROUP = 'queues'
OPTS = [
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="Whether this agent takes jobs from queues, and whether a conductor's router "
        'sends jobs there. A cloud may have both: nodes that take jobs, and nodes that '
        'the scheduler chooses.',
    ),
    cfg.StrOpt(
        'transport_url',
        secret=True,
        help='The broker of the queues, as a URL of oslo.messaging; if unset, [DEFAULT] '
        'transport_url. On `fake://` the queues are in the process itself.',
    ),
    cfg.StrOpt(
        'queue_type',
        default=CLASSIC,
        choices=[
            (CLASSIC, 'durable queues of one broker node'),
            (
                QUORUM,
                (
                    'queues that are replicated on several broker nodes; jobs may be put '
                    'back when several come at once'
                ),
            ),
        ],
        help='Type of the queues on RabbitMQ. Existing queues keep their type.',
    ),
    cfg.ListOpt(
        'specials',
        default=[],
        help='Special things: a job may ask for one of them in addition to its flavor. Each '
        'flavor has an additional queue for each of them. `pci:gpu` is a device by its '
        '[pci] alias, `resource:CUSTOM_LICENSE` one unit of a resource class, '
        '`trait:CUSTOM_SSD` a trait, `zone:north` an availability zone. A job that '
        'asks for more than one goes to the scheduler.',
    ),
    cfg.IntOpt(
        'slots',
        default=2,
        min=1,
        help='Jobs that one compute node works on at the same time.',
    ),
    cfg.IntOpt(
        'priority_steps',
        default=10,
        min=1,
        max=255,
        help='Steps into which the score of a node is divided: among the nodes that '
        'subscribe to a queue, those of the highest step are served first. With 1 the '
        'broker serves all in turn. When its step changes, a node subscribes to all '
        'its queues again.',
    ),
    cfg.IntOpt(
        'fallback_after',
        default=30,
        min=1,
        help='Seconds after which a job that no worker has taken is decided by the '
        'scheduler. Existing queues keep their value.',
    ),
    cfg.IntOpt(
        'max_redeliveries',
        default=3,
        min=0,
        help='How often a job is put back, because a worker stopped or could not do it, '
        'before the scheduler decides.',
    ),
    cfg.IntOpt(
        'reply_timeout',
        default=1800,
        min=1,
        mutable=True,
        help='Seconds for which a conductor waits for a server. After that the conductor '
        'gets an error, and the job goes on.',
    ),
    cfg.IntOpt(
        'job_retention',
        default=86400,
        min=0,
        help='Seconds for which a job that has ended is still listed.',
    ),
    cfg.StrOpt(
        'driver',
        default='fake',
        help='The driver that builds instances: a name among the entry points '
        '`nova_sched.drivers`. `fake` only waits, `exec` runs exec_command.',
    ),
    cfg.FloatOpt(
        'fake_seconds',
        default=0.0,
        min=0.0,
        help='Seconds that a job takes with the driver `fake`.',
    ),
    cfg.FloatOpt(
        'fake_failures',
        default=0.0,
        min=0.0,
        max=1.0,
        help='Share of the jobs that fail with the driver `fake`.',
    ),
    cfg.StrOpt(
        'exec_command',
        help='Command of the driver `exec`, without a shell. It gets the job as JSON on its '
        'standard input, and its kind and the UUID of the instance as arguments. If '
        'its exit status is not 0, the last line of its standard error is the reason of the '
        'failure, and the last 4 KiB of its standard output and of its standard error are kept '
        'with the job: `nova-sched-manage job show`.',
    ),
    cfg.StrOpt(
        'exec_user',
        help='User that runs the command of the driver `exec`, with the groups of that user. For '
        'another user than its own, the agent must run as root, or with the capabilities '
        'CAP_SETUID, CAP_SETGID and CAP_KILL. If unset, the user of the agent runs it.',
    ),
    cfg.ListOpt(
        'exec_environment',
        default=['PATH', 'LANG'],
        help='Environment of the command of the driver `exec`: each item is `NAME=value`, or the '
        '`NAME` of a variable that the command takes over from the agent. It sees no other '
        'variable.',
    ),
    cfg.IntOpt(
        'exec_timeout',
        default=900,
        min=1,
        help='Seconds after which a command of the driver `exec` is ended and the job '
        'fails. Must be less than [claims] pending_ttl.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
