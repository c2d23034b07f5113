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
"""This machine as an additional compute node, with the facts that its agent reports."""

import pathlib
import socket

from nova_sched.agent import AgentSettings, inventory, machine
from nova_sched.sim.machines import Node


def this_machine(directory, zone):
    """Returns a Node with this machine's real CPUs, memory and disk, in the first rack of a zone.

    It builds nothing either. The directory keeps its UUID. Raises BadMachineFacts.
    """
    directory = pathlib.Path(directory)
    settings = AgentSettings(
        host=socket.gethostname(), uuid_file=directory / 'compute_id', instances_path=directory
    )
    stats = machine.compute_node(settings)
    return Node(stats, inventory.inventories(stats, settings), zone, f'{zone}-rack-1')
