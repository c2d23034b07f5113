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
"""Makes the calls of orders (see ``orders``), as a conductor that records its requests
and their answers.

An order is a call of ``select_destinations``; ``{"abort": UUID}`` ends an instance's claims
instead. Its answer is the order itself with ``sent_s`` (of each try) and ``answered_s``, seconds
since the epoch; ``nodes`` (the UUID for each instance, None if they were not placed); ``error``, a
class, and ``reason``.
"""

import time
import uuid

import oslo_messaging as messaging

from nova_sched import errors, objects
from nova_sched.rpc import client
from nova_sched.tests.functional import harness
from nova_sched.tests.hardware_objects import spec_fields
from nova_sched.tests.integration.orders import PAGE_KB
from nova_sched.tests.unit.hardware.builders import dedicated, request, wanted

TRIES = 12
LONGEST_S = 120
NO_ANSWER = 'NoAnswer'


class Caller:
    """Asks again for the same instances after ``timeout_s`` without an answer; 0 waits."""

    def __init__(self, bus, timeout_s):
        self._scheduler = client.SchedulerClient(bus, LONGEST_S, timeout_s or None)
        self._claims = client.ClaimsClient(bus, LONGEST_S, timeout_s or None)

    def greet(self):
        """Come back when a scheduler has answered."""
        self._claims.show(str(uuid.uuid4()))

    def call(self, order):
        """The order with its answer."""
        sent_s, nodes, error, reason = [], None, NO_ANSWER, ''
        while error == NO_ANSWER and len(sent_s) < TRIES:
            sent_s.append(time.time())
            try:
                nodes, error, reason = self._do(order), None, ''
            except messaging.RemoteError as failure:
                error, reason = failure.exc_type, str(failure.value)
            except (
                errors.NoAnswer,
                errors.StoreUnavailable,
                messaging.MessagingException,
            ) as nothing:
                reason = str(nothing)
            except errors.SchedError as failure:
                error, reason = type(failure).__name__, str(failure)
        answer = {'nodes': nodes, 'error': error, 'reason': reason[:300]}
        return {**order, 'sent_s': sent_s, 'answered_s': time.time(), **answer}

    def _do(self, order):
        if 'abort' in order:
            for one in self._claims.show(order['abort']):
                self._claims.abort_claim(order['abort'], claim=one.name)
            return None
        found = self._scheduler.select_destinations(
            spec(order), order['instances'], return_alternates=False
        )
        return [chosen.compute_node_uuid for chosen, *_ in found]


def spec(order):
    """The RequestSpec of an order."""
    asks, group = order['asks'], order['group']
    resources = asks['resources']
    return harness.spec(
        vcpus=resources.get('VCPU', asks['cpus']),
        memory_mb=resources['MEMORY_MB'],
        root_gb=resources.get('DISK_GB', 0),
        extra_specs=order['extra_specs'],
        num_instances=len(order['instances']),
        **_pieces(asks),
        **({'instance_group': _group(**group)} if group else {}),
    )


def _pieces(asks):
    memory_mb = asks['pages'] * PAGE_KB // 1024
    cells = (
        [dedicated(asks['cpus'], memory_mb=memory_mb, pagesize_kb=PAGE_KB)] if asks['cpus'] else []
    )
    devices = [request(asks['devices'])] if asks['devices'] else []
    return spec_fields(wanted(*cells, requests=devices)) if cells or devices else {}


def _group(uuid, policy, most, members):
    rules = {'max_server_per_host': str(most)} if policy == 'anti-affinity' else {}
    return objects.InstanceGroup(uuid=uuid, policy=policy, members=members, hosts=[], rules=rules)
