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
"""Options of the [rebalance] group: moves of servers between hosts."""

import re

from oslo_config import cfg, types

HOURS = re.compile('([0-2][0-9]):([0-5][0-9])-([0-2][0-9]):([0-5][0-9])')
GOAL = re.compile('empty|spread|fit:.+')


class HoursType(types.String):
    """Hours of a day as `HH:MM-HH:MM`; the value is (begin, end) in minutes after midnight."""

    def __call__(self, value):
        match = HOURS.fullmatch(super().__call__(value))
        if match is None:
            raise ValueError(f'{value} is not of the form HH:MM-HH:MM')
        hours = [int(hour) for hour in match.groups()]
        if max(hours[0], hours[2]) > 23:
            raise ValueError(f'{value}: a day has the hours 00 to 23')
        return hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]


GROUP = 'rebalance'
OPTS = [
    cfg.IntOpt(
        'in_flight',
        default=4,
        min=1,
        help='Number of servers that move at the same time, over all rebalances and schedulers.',
    ),
    cfg.StrOpt(
        'goal',
        regex=GOAL,
        sample_default='empty',
        help='Turns on the periodic mode: a scheduler makes a plan with this goal every '
        '`interval` seconds while no move is open, and carries it out. `empty`: as many hosts '
        'without servers as possible; `fit:` and a flavor: as many places for that flavor as '
        'possible; `spread`: the usage of hosts becomes equal.',
    ),
    cfg.FloatOpt(
        'interval',
        default=3600.0,
        min=60.0,
        help='Seconds between two plans of the periodic mode.',
    ),
    cfg.IntOpt(
        'moves_per_hour',
        default=20,
        min=0,
        help='Number of moves of the periodic mode that start in any hour.',
    ),
    cfg.ListOpt(
        'quiet_hours',
        item_type=HoursType(),
        default=[],
        sample_default='07:00-09:30, 22:00-02:00',
        help='Hours of a day, in UTC by the clock of the database, in which no move of the '
        'periodic mode starts.',
    ),
    cfg.FloatOpt(
        'close_emptied',
        default=0.0,
        min=0.0,
        help='Seconds for which the hosts that a plan of the periodic mode empties take no new '
        'servers, from when the plan is made. 0: they take them.',
    ),
    cfg.ListOpt(
        'protected_aggregates',
        default=[],
        help='Names or UUIDs of aggregates: no server moves from or to their hosts.',
    ),
    cfg.ListOpt(
        'protected_projects',
        default=[],
        help='UUIDs of projects whose servers do not move.',
    ),
    cfg.ListOpt(
        'immovable_servers',
        default=[],
        help='UUIDs of servers that do not move.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
