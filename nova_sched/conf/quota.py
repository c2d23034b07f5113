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
"""Options of the [quota] group: the limits of projects."""

from oslo_config import cfg, types

NONE, TABLE, KEYSTONE = 'none', 'table', 'keystone'

# Nova's option of this name has classes.
OF_NOVA = {
    'nova.quota.NoopQuotaDriver': NONE,
    'nova.quota.DbQuotaDriver': TABLE,
    'nova.quota.UnifiedLimitsDriver': KEYSTONE,
}


class DriverType(types.String):
    """The name of a driver; Nova's class names stand for the drivers here."""

    def __call__(self, value):
        return super().__call__(OF_NOVA.get(value, value))


# What the placement groups of a project may hold, so that no project alone can take the cloud:
# about a hundred small servers, and the templates for them.
PLANS = {
    'planned_servers': 100,
    'planned_class:VCPU': 400,
    'planned_class:PCPU': 400,
    'planned_class:MEMORY_MB': 1638400,
    'planned_class:DISK_GB': 10000,
    'group_members': 500,
    'exclusive_domains': 20,
    'group_bytes': 4194304,
}
SERVERS = {'servers': 10, 'class:VCPU': 20, 'class:MEMORY_MB': 51200}

QUOTA_OPTS = [
    cfg.Opt(
        'driver',
        type=DriverType(
            choices=[
                (NONE, 'no limits; usage is counted all the same'),
                (TABLE, 'limits from the database, by `nova-sched-manage quota set`'),
                (KEYSTONE, 'unified limits of Keystone, by oslo.limit; [oslo_limit] says where'),
            ]
        ),
        default=TABLE,
        help='Where the limits of projects come from. The class names of the same option in '
        'nova.conf are understood.',
    ),
    cfg.Opt(
        'limits',
        type=types.Dict(value_type=types.Integer(min=-1), key_value_separator='='),
        default={**SERVERS, **PLANS},
        sample_default=', '.join(f'{name}={most}' for name, most in {**SERVERS, **PLANS}.items()),
        help='Default limits of a project, for resources without a limit in the table, as '
        '`resource=number`. For servers of queues: `servers`, or `class:` and a resource '
        'class of Placement. For placement groups: `planned_servers`, `planned_class:` and a '
        'resource class, `group_members`, `exclusive_domains`, and `group_bytes` of their stored '
        'definitions. -1 is no limit. A resource of placement groups that is not named keeps its '
        'default, if it has one here; any other that is not named has no limit.',
    ),
]
OPTS = {'quota': QUOTA_OPTS}
