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
"""nova-sched-scheduler: the daemon."""

import sys

from nova_sched.cmd import backend


def main():
    return backend.run_daemon(_run)


def _run():
    from nova_sched import service
    from nova_sched.cmd import launcher, startup
    from nova_sched.conf.telemetry import SCHEDULER

    conf = startup.configure()
    startup.check(conf)
    scheduler = service.SchedulerService(conf)
    return launcher.run(conf, scheduler, SCHEDULER, service.workers(conf), check=service.rules)


if __name__ == '__main__':
    sys.exit(main())
