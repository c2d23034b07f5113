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
"""A cloud of queues in one process: scheduler, manager, agents with workers, and a conductor's
router."""

import pytest

from nova_sched import errors, objects
from nova_sched.db import engine
from nova_sched.db.jobs import SqlJobTable
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.rpc.client import QueuesClient
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.test_agent import Cloud, until

FALLBACK_AFTER_S = 2
SMALL = {'name': 'small', 'vcpus': 2, 'memory_mb': 16}
LARGE = {'name': 'large', 'vcpus': 6, 'memory_mb': 16}
ROWS = {row['name']: row for row in (SMALL, LARGE)}
OPTIONS = {
    'claims.store': 'sql',
    'claims.refresh_interval': 0.2,
    'queues.enabled': True,
    'queues.transport_url': 'fake://',
    'queues.fallback_after': FALLBACK_AFTER_S,
    'queues.reply_timeout': 120,
    'quota.limits': {'servers': 10, 'class:VCPU': 40},
}


class QueueCloud(Cloud):
    """Started piece by piece, with two flavors; ``router`` is there from the start."""

    def __init__(self, conf, root, url='fake://'):
        super().__init__(conf, root, url)
        queue_service.in_process.cache_clear()
        self.engine = engine.create(conf.database.connection)
        self.job_table = SqlJobTable(self.engine)
        self.queues = QueuesClient(self.bus, timeout_s=60)
        self.scheduler()
        self.manager = self._start(queue_service.QueueService(conf, self.bus)).manager
        for row in (SMALL, LARGE):
            self.queues.flavor_create(row)
        self.router = self._start(queue_service.Routing(conf, self.bus)).router

    def close(self):
        super().close()
        self.engine.dispose()

    def worker(self, *hosts, **options):
        """Start agents with workers. They have reported, and are subscribed to the queue of the
        larger flavor."""
        before = self.consumers()['large']
        agents = [self.agent(host, **options) for host in hosts]
        until(self.takes)
        until(lambda: set(hosts) <= set(self.ranking()))
        until(lambda: self.consumers()['large'] == before + len(hosts))
        return agents

    def consumers(self):
        return {one['name']: one['consumers'] for one in self.queues.facts()}

    def spec(self, flavor='small', **fields):
        """What a conductor asks for; ``fields`` are RequestSpec's."""
        catalogue = Catalogue.of(1, [ROWS[flavor]])
        made = catalogue.spec(catalogue.queues[0], None, 'p', 'u')
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def grouped(self):
        group = objects.InstanceGroup(
            uuid=uuid_of('group'), policy='anti-affinity', hosts=[], members=[], rules={}
        )
        return self.spec(instance_group=group)

    def place(self, name, flavor='small', **fields):
        """The host where the server of that name is."""
        ((found, *_),) = self.router.place(self.spec(flavor, **fields), [uuid_of(name)])
        return found.service_host

    def held(self, name):
        """host, state and CPUs of each claim of that server."""
        claims = self.claims.show(uuid_of(name))
        return [(one.host, one.state, one.resources['VCPU']) for one in claims]

    @property
    def used(self):
        return self.job_table.usage('p')

    def jobs(self, name):
        """Kind and state of its jobs."""
        return [(one.kind, one.state) for one in self.job_table.of_instance(uuid_of(name))]


def refused(work, *args, **words):
    """The error of ours that it raises."""
    with pytest.raises(errors.SchedError) as caught:
        work(*args, **words)
    return caught.value
