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
"""Options of the [notifications] group, as in Nova, and one of our own."""

from oslo_config import cfg, types

UNVERSIONED, VERSIONED, BOTH = 'unversioned', 'versioned', 'both'
REFUSALS, GROUPS, CLAIMS = 'refusals', 'groups', 'claims'  # kinds of events

GROUP = 'notifications'
OPTS = [
    cfg.StrOpt(
        'notification_format',
        default=UNVERSIONED,
        choices=[
            (UNVERSIONED, 'only the notifications without versions'),
            (VERSIONED, 'only the versioned notifications'),
            (BOTH, 'both'),
        ],
        help='Which notifications of calls are sent, if `[oslo_messaging_notifications] driver` '
        'is set. Only for the source `nova`.',
    ),
    cfg.ListOpt(
        'versioned_notifications_topics',
        default=['versioned_notifications'],
        help='Topics of the versioned notifications. Those without versions go to '
        '`[oslo_messaging_notifications] topics`.',
    ),
    cfg.ListOpt(
        'scheduler_events',
        default=[],
        item_type=types.String(
            choices=[
                (REFUSALS, 'requests that found no host'),
                (GROUPS, 'plans of groups'),
                (CLAIMS, 'claims that were made, changed or ended'),
            ]
        ),
        help='Events of which the scheduler notifies on `versioned_notifications_topics`, if '
        '`[oslo_messaging_notifications] driver` is set. `refusals`: each request that found no '
        'host, with the reasons of the filters. `groups`: each plan of a group that was claimed, '
        'refused or deleted. `claims`: the claims that each transaction made, confirmed, reverted '
        'or ended. They name hosts and amounts.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
