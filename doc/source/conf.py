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
    'sphinx.ext.graphviz',
]
# Pictures have a background of their own, so that they can be read on a dark page too.
STYLE = {
    'G': {'bgcolor': 'white', 'color': '#8a8a8a', 'fontsize': 12, 'size': '9.5,99'},
    'N': {'fillcolor': '#e8f1fa', 'color': '#2f6f9f', 'fontsize': 12, 'style': 'rounded,filled'},
    'E': {'color': '#555555', 'fontcolor': '#333333', 'fontsize': 11},
}
graphviz_output_format = 'svg'
graphviz_dot_args = [
    f'-{part}{name}={value}'
    for part, values in STYLE.items()
    for name, value in {'fontname': 'Arial', **values}.items()
]
html_theme = 'alabaster'
html_theme_options = {'page_width': '70em', 'show_powered_by': False}
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
        ('nova-sched-shadow', 'watch the scheduler of a Nova cloud', 8),
        ('nova-sched-status', 'check whether nova_sched can be started', 8),
        ('nova-sched-sim', 'simulate compute nodes and conductors', 1),
    )
]
