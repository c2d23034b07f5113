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
"""The queue model in one process: a scheduler, a manager of queues, two compute nodes, and a
conductor."""

import dataclasses
import time
import uuid
from contextlib import ExitStack

from nova_sched.cmd import backend

backend.choose()  # of threads, before anything else is imported

from nova_sched import errors, objects, rpc  # noqa: E402
from nova_sched.conf import CONF  # noqa: E402
from nova_sched.extensions.agent.daemon import AgentService, settings  # noqa: E402
from nova_sched.extensions.queues.service import QueueService, Routing  # noqa: E402
from nova_sched.rpc.client import QueuesClient  # noqa: E402
from nova_sched.service import SchedulerService  # noqa: E402

TINY = {'name': 'tiny', 'vcpus': 1, 'memory_mb': 64}


def nodes(bus):
    """Two agents on this machine: it is there twice."""
    here = settings(CONF)
    for host in ('one', 'two'):
        uuid_file = here.uuid_file.parent / host / 'compute_id'
        uuid_file.parent.mkdir(exist_ok=True)
        yield AgentService(CONF, dataclasses.replace(here, host=host, uuid_file=uuid_file), bus)


def spec():
    """What a conductor asks for: one server of that flavor."""
    amounts = {'flavorid': 'tiny', 'root_gb': 0, 'ephemeral_gb': 0, 'swap': 0, 'extra_specs': {}}
    flavor = objects.Flavor(**TINY, **amounts)
    return objects.RequestSpec(flavor=flavor, project_id='demo', user_id='ann', num_instances=1)


def show(queues):
    for queue in queues.facts():
        print(f'queue {queue["name"]}: {queue["ready"]} wait, {queue["consumers"]} take from it')


def try_it(router, queues):
    """Create servers until the quota is used up, then delete them."""
    queues.flavor_create(TINY)
    while (queues.facts()[-1]['consumers'] or 0) < 2:  # the nodes are on their way
        time.sleep(0.1)
    show(queues)
    servers = []
    try:
        while True:
            server = str(uuid.uuid4())
            ((chosen, *_),) = router.place(spec(), [server])
            print(f'server {len(servers) + 1} runs on host {chosen.service_host}')
            servers.append(server)
    except errors.QuotaExceeded as refusal:
        print(refusal)
    for server in servers:
        router.delete(server)
    print(f'{len(servers)} servers are deleted')


def main():
    CONF(project='nova_sched')
    with ExitStack() as stack:
        bus = rpc.transport(CONF)
        for service in (SchedulerService(CONF, bus), QueueService(CONF, bus), *nodes(bus)):
            service.start()
            stack.callback(service.stop)
        try_it(stack.enter_context(Routing(CONF, bus)), QueuesClient(bus))


if __name__ == '__main__':
    main()
