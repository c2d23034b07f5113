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
"""A conductor that creates a server through the router, and deletes it again."""

import sys
import uuid

from nova_sched.cmd import backend

backend.choose()  # of threads, before anything else is imported

from nova_sched import errors, objects  # noqa: E402
from nova_sched.conf import CONF  # noqa: E402
from nova_sched.extensions.queues.service import Routing  # noqa: E402


def spec():
    """What Nova's conductor has: a request for one server of the flavor tiny."""
    flavor = objects.Flavor(
        name='tiny',
        flavorid='tiny',
        vcpus=1,
        memory_mb=1024,
        root_gb=5,
        ephemeral_gb=0,
        swap=0,
        extra_specs={},
    )
    return objects.RequestSpec(flavor=flavor, project_id='demo', user_id='ann', num_instances=1)


def main():
    CONF(sys.argv[1:], project='nova_sched')
    instance_uuid = str(uuid.uuid4())
    with Routing(CONF) as router:
        try:
            ((chosen, *_),) = router.place(spec(), [instance_uuid])
        except errors.SchedError as error:
            sys.exit(f'server {instance_uuid} is not there: {error}')
        print(f'server {instance_uuid} runs on host {chosen.service_host}')
        router.delete(instance_uuid)
        print('it is deleted')


if __name__ == '__main__':
    main()
