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
"""Counts decisions in a scheduler, and shows the numbers."""

import collections

import oslo_messaging as messaging

from acme_counts import DECISIONS
from nova_sched.api.handlers import reply
from nova_sched.cmd.manage import asking, output
from nova_sched.cmd.manage.arguments import TIMEOUT
from nova_sched.extension import Part
from nova_sched.rpc.client import NamespaceClient
from nova_sched.rpc.messages import expected


class CountingPart(Part):
    def __init__(self):
        self.counts = collections.Counter()

    def answered(self, order, outcome):
        project = order.requests[0].project_id or 'none'
        self.counts[project] += 1
        DECISIONS.add(project)

    def endpoints(self, bus):
        return [CountsEndpoint(self.counts)]


class CountsEndpoint:
    target = messaging.Target(namespace='acme', version='1.0')

    def __init__(self, counts):
        self._counts = counts

    @expected
    def decisions(self, context):
        return dict(self._counts)


class CountsClient(NamespaceClient):
    NAMESPACE = 'acme'

    def decisions(self, context=None):
        return self.call(context, 'decisions')


class Handlers:
    def __init__(self, api):
        self._policy, self._scheduler = api.policy, api.client_of(CountsClient)

    def count_decisions(self, call):
        self._policy.demand(call.context, 'decisions:count')
        return reply(self._scheduler.decisions(context=call.context))


def count(args, conf):
    """Count the decisions of each project

    Asks a running scheduler.
    """
    found = asking.ask(args, conf, CountsClient, CountsClient.decisions)
    output.show(args, [{'project': name, 'decisions': times} for name, times in found.items()])


VERBS = [('count', count, TIMEOUT)]
