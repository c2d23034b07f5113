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
"""The queue model: each flavor is a queue, and compute nodes take the jobs that they can do.

The way of a job, and the modules that it passes::

    conductor/router       place, delete, resize, migrate: the interface for a conductor
      conductor/routing      the flavor's queue, or the scheduler with the reason
      conductor/job_entries  the job's row and its quota, before anything is sent
      messages               the job as bytes, to a flavor queue, a node or the scheduler
    brokers/               the contract; amqp on RabbitMQ, memory within the process
    node/worker            takes the job; fit chooses the queues that the node subscribes to
      node/work              claim, build, confirm: the steps of each kind of job
      node/inflight          completes the message: result, alternate, put back
    manager/endings        settles the job: row, quota, answer
      manager/fallback       jobs that no worker took: the scheduler chooses their host
      manager/upkeep         jobs whose messages were lost
    conductor/waiting      receives the answer, or reads the row

catalogue has the flavors and special things, and manager/register maintains it.
"""

from nova_sched.extension import Extension


class Queues(Extension):
    """Flavors that are queues, and the jobs in them."""

    def options(self):
        from nova_sched.extensions.queues import conf

        return (conf,)

    def nouns(self):
        return {
            'flavor': (
                'manage flavors: each is a queue of jobs',
                'nova_sched.extensions.queues.flavor_verbs:VERBS',
            ),
            'queue': (
                'show the queues and their waiting jobs',
                'nova_sched.extensions.queues.flavor_verbs:QUEUE_VERBS',
            ),
            'job': (
                'show the jobs that go through queues, and cancel them',
                'nova_sched.extensions.queues.job_verbs:VERBS',
            ),
        }

    def checks(self):
        from nova_sched.extensions.queues import checks

        return (checks.specials, checks.broker)

    def trials(self):
        from nova_sched.extensions.queues import checks

        return {'broker of queues': checks.connection}

    def document(self):
        from nova_sched.api import document

        return document.read(__package__)

    def policies(self, rule):
        from nova_sched.extensions.queues import rest

        return rest.policies(rule)

    def handlers(self, api):
        from nova_sched.extensions.queues import rest

        return rest.handlers(api)

    def companions(self, conf, bus):
        from nova_sched.extensions.queues import rest, service

        if not rest.has_queues(conf):
            return ()
        service.check(conf)
        return (service.QueueService(conf, bus),)
