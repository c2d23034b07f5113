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
"""Options of the configuration, for a while."""

import contextlib

from nova_sched.conf import CONF

# What a reload would call in this process: daemons read their settings again.
RELOADS = set()


@contextlib.contextmanager
def settings(values):
    """Options, as ``{'group.name': value}``, for as long as the block runs."""
    places = [(name, None if group == 'default' else group)
              for group, name in (key.split('.') for key in values)]  # fmt: skip
    for (name, group), value in zip(places, values.values(), strict=True):
        CONF.set_override(name, value, group=group)
    _reload()
    try:
        yield
    finally:
        for name, group in places:
            CONF.clear_override(name, group=group)
        _reload()


def _reload():
    for reload in [*RELOADS]:
        reload()


def told_all():
    """While the block runs, callers of refused requests are told all reasons."""
    return settings({'explain.tell_callers': 'all'})
