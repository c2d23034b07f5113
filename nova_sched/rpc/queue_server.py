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
"""RPC servers of the queue model: managers answer calls, and routers receive changes."""

from nova_sched import rpc
from nova_sched.rpc.endpoints.queues import CatalogueEndpoint, QueuesEndpoint

TOPIC = 'nova_sched_queues'
NEWS = 'nova_sched_catalogue'


def manager(bus, host, register):
    """The RPC server of a manager, on which it also receives the changes of other managers."""
    return rpc.server(
        bus, host, [QueuesEndpoint(register), CatalogueEndpoint(register.hear)], TOPIC
    )


def router(bus, name, hear):
    """An RPC server on which a router receives changes; it calls ``hear(version)`` from its
    threads."""
    return rpc.server(bus, name, [CatalogueEndpoint(hear)], NEWS)
