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
