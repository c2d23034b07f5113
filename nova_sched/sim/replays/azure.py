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
"""The virtual machines of a cloud's region (Azure, 2017), with departures, on hosts of one
shape."""

import itertools

from nova_sched.claim import MEMORY_MB, VCPU
from nova_sched.conf import CONF
from nova_sched.sim import trace
from nova_sched.sim.replays.workload import Arrival, Workload, report, server_uuid
from nova_sched.state.request import Request

HOUR_S, GRID_S = 3600.0, 300.0
WARM_UP_S = 24 * HOUR_S  # the trace begins with an empty cloud


def workload(path, hosts, vcpus, memory_gb, hours=None):
    """Returns the Workload of a trace (``sim.trace``). Raises BadConfig.

    ``hosts`` hosts with ``vcpus`` and ``memory_gb`` GiB; ``hours``: only so much of the trace. A
    batch of one flavor is one request. Each request has its lifetime as ``ttl``. The order of
    arrival is that of the file, so the seed has no effect.
    """
    listed = list(trace.split(trace.load(path), CONF.scheduler.max_instances_per_request))
    start_s, end_s = listed[0].time_s, listed[-1].time_s + GRID_S
    if hours is not None:
        end_s = start_s + hours * HOUR_S
        listed = [one for one in listed if one.time_s < end_s]
    amounts = {VCPU: vcpus, MEMORY_MB: memory_gb * 1024}

    def arrivals(_seed):
        numbers = itertools.count()
        return (_arrival(one, numbers) for one in listed)

    return Workload(
        'azure',
        'vCPUs',
        [report(f'host-{number}', amounts) for number in range(hosts)],
        hosts * vcpus,
        arrivals,
        measured_s=min(start_s + WARM_UP_S, (start_s + end_s) / 2),
        end_s=end_s,
    )


def _arrival(listed, numbers):
    # A lifetime of 0 ends within the grid of the trace, in its middle.
    lifetimes_s = tuple(GRID_S / 2 if one == 0 else one for one in listed.lifetimes_s)
    requests = tuple(
        _request(listed.flavor, lifetime_s, next(numbers)) for lifetime_s in lifetimes_s
    )
    vcpus = listed.flavor.vcpus
    return Arrival(requests, vcpus, f'{vcpus} vCPUs', listed.time_s, lifetimes_s)


def _request(flavor, lifetime_s, number):
    return Request(
        server_uuid(number),
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
        resources={VCPU: flavor.vcpus, MEMORY_MB: flavor.memory_mb},
        flavor_name=flavor.name,
        hints={} if lifetime_s is None else {'ttl': [lifetime_s]},
    )
