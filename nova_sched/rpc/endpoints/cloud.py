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
"""The namespace `cloud`: what a scheduler knows of the Nova cloud that it reads."""

import oslo_messaging as messaging

from nova_sched import errors
from nova_sched.rpc.messages import expected


class CloudEndpoint:
    """Read-only calls of operators. ``status`` returns what ``cloud.status.CloudStatus.read``
    does; it is None for a scheduler whose hosts report themselves."""

    target = messaging.Target(namespace='cloud', version='1.0')

    def __init__(self, status):
        self._status = status

    @expected
    def status(self, context):
        """Returns the mapping of ``cloud.status.CloudStatus.read``. Raises InvalidRequest."""
        if self._status is None:
            why = "the scheduler's hosts report themselves: nova-sched-manage host list shows them"
            raise errors.InvalidRequest('cloud status', why)
        return self._status()
