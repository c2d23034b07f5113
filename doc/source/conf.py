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
"""How the manual is built: sphinx-build -W doc/source doc/build/html."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # command_reference, rest_reference

project = 'nova_sched'
extensions = [
    'command_reference',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'rest_reference',
]
html_theme = 'alabaster'
html_theme_options = {'page_width': '60em', 'show_powered_by': False}
html_show_copyright = False
version = importlib.metadata.version('nova-sched')
man_pages = [
    (f'man/{name}', name, title, '', section)
    for name, title, section in (
        ('nova-sched-agent', 'report a compute node to the schedulers of nova_sched', 8),
        ('nova-sched-api', 'the REST API of nova_sched', 8),
        ('nova-sched-manage', 'manage nova_sched', 8),
        ('nova-sched-queues', 'the manager of queues of nova_sched', 8),
        ('nova-sched-scheduler', 'the scheduler of nova_sched', 8),
        ('nova-sched-sim', 'simulate compute nodes and conductors', 1),
    )
]
