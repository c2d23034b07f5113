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
"""The namespace `news` 1.0, on a separate topic: change events that schedulers send to each
other."""

import logging

import oslo_messaging as messaging

from nova_sched import errors
from nova_sched.rpc import news, words
from nova_sched.rpc.failures import expected

LOG = logging.getLogger(__name__)


class News:
    target = messaging.Target(namespace='news', version='1.0')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    @expected
    def changed(self, context, origin, **told):
        """A scheduler changed the store. It waits for no answer; an error in its change event is
        logged."""
        if origin == self._scheduler.uuid:
            return
        try:
            heard = news.from_plain(**told)
        except (errors.InvalidRequest, *news.UNREADABLE) as error:
            known = origin if words.is_name(origin) else words.short(origin)
            LOG.warning('Change event of scheduler %s cannot be read: %.300r', known, error)
        else:
            self._scheduler.hear(heard)
