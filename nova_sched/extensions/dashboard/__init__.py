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

"""The dashboard: pages that show what the schedulers see, and why they decide as they do.

``app.make(conf, clients, database)`` returns a WSGI application, which nova-sched-api serves
under ``/dashboard``. The pages read the database themselves, as the commands of nova-sched-manage
do, and ask a scheduler only what no table has. Callers are identified, and their rights are
checked, as in the REST API.
"""

from nova_sched.extension import Extension

FORM_SIZE = 1024 * 1024  # bytes


class Dashboard(Extension):
    """Pages under /dashboard."""

    def options(self):
        from nova_sched.extensions.dashboard import conf

        return (conf,)

    def policies(self, rule):
        from nova_sched.extensions.dashboard import security

        return security.rules(rule)

    def applications(self, api):
        if not api.conf.dashboard.enabled:
            return {}
        from nova_sched.extensions.dashboard import app
        from nova_sched.extensions.dashboard.parts import Clients
        from nova_sched.extensions.queues import rest
        from nova_sched.rpc.client import ExplainClient, GroupsClient

        clients = Clients(
            api.client_of(GroupsClient), rest.client(api), api.client_of(ExplainClient)
        )
        return {'/dashboard': app.make(api.conf, clients, api.database, api.limits)}
