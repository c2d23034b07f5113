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
"""Options for a while: Nova's, or the same on both sides."""

import contextlib

from nova.conf import CONF

from nova_sched.tests.options import settings


@contextlib.contextmanager
def options(group=None, **values):
    """These values for options of [DEFAULT], or of a group, for as long as the block runs."""
    for name, value in values.items():
        CONF.set_override(name, value, group=group)
    try:
        yield
    finally:
        for name in values:
            CONF.clear_override(name, group=group)


@contextlib.contextmanager
def both(values):
    """Options of Nova and of ours, as ``{'group.name': value}``, for as long as the block runs."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(settings(values))
        for key, value in values.items():
            group, name = key.split('.')
            stack.enter_context(options(None if group == 'default' else group, **{name: value}))
        yield
