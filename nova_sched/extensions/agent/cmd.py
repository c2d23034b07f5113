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
"""nova-sched-agent: reports this compute node, and keeps the list of its instances."""

import sys

from nova_sched.cmd import backend


def main():
    return backend.run_daemon(_run)


def _run():
    from nova_sched.cmd import launcher, startup
    from nova_sched.conf.telemetry import AGENT
    from nova_sched.extensions.agent import daemon as agent_service
    from nova_sched.extensions.queues import service as queue_service

    conf = startup.configure()
    service = agent_service.AgentService(conf, agent_service.check(conf))
    queue_service.try_brokers(conf)
    return launcher.run(conf, service, AGENT)


if __name__ == '__main__':
    sys.exit(main())
