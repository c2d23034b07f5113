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
"""What `config check` tries of the options of agents."""

from nova_sched.cmd.manage.config import ERROR, ConfigFinding
from nova_sched.extensions.queues import checks


def report_interval(conf):
    """Hosts that would count as down between two of their reports."""
    each, after = conf.agent.report_interval, conf.service_down_time
    if each >= after:
        problem = f'agents report each {each} s, but a host counts as down after {after} s'
        advice = 'make it several times [agent] report_interval'
        yield ConfigFinding(ERROR, '[DEFAULT] service_down_time', problem, advice)


def driver(conf):
    """An invalid driver of jobs."""
    if conf.queues.enabled:
        from nova_sched.extensions.agent import jobs  # late: it is seldom configured

        yield from checks.invalid_option('driver', lambda: jobs.driver(conf, conf.host))
