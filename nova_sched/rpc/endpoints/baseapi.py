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
"""The namespace `baseapi`, which every service of Nova answers."""

import oslo_messaging as messaging

from nova_sched.rpc.failures import expected


class BaseApi:
    target = messaging.Target(namespace='baseapi', version='1.1')

    @expected
    def ping(self, context, arg):
        """Returns the argument, and the name of the service."""
        return {'service': 'scheduler', 'arg': arg}

    @expected
    def get_backdoor_port(self, context):
        """Returns None: there is no backdoor."""
