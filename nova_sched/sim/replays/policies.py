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
"""Policies: each is a set of options of the configuration."""

import pathlib

from nova_sched import errors

GROUP = 'filter_scheduler'
# Nodes report once, at the start.
ALWAYS = {'default.service_down_time': 10**9}
MULTIPLIERS = (
    'ram cpu disk io_ops num_instances pci hypervisor_version build_failure fragmentation '
    'exit_time'.split()
)


def _only(**multipliers):
    """The options of a policy that has no other weights."""
    values = dict.fromkeys(MULTIPLIERS, 0.0) | multipliers
    return {f'{GROUP}.{name}_weight_multiplier': value for name, value in values.items()}


# The multipliers of a policy replace those of a configuration file. Hosts of equal weight are
# taken in their order.
BUILT_IN = {
    'nova': {},
    'first-fit': _only(),
    'best-fit': _only(ram=-1.0, cpu=-1.0),
    'fragmentation': _only(fragmentation=1.0),
    'keep-empty': _only(fragmentation=1.0) | {f'{GROUP}.keep_empty': True},
    'exit-time': _only(fragmentation=1.0, exit_time=0.1) | {f'{GROUP}.keep_empty': True},
}


def read(text):
    """Reads ``NAME``, one of BUILT_IN, or ``NAME=FILE``, a configuration file. Returns (name,
    options, file or None). Raises BadConfig."""
    name, _, path = text.partition('=')
    if path:
        if not pathlib.Path(path).is_file():
            raise errors.BadConfig(f'--policy {text}', f'there is no file {path}')
        return name, {}, path
    if name not in BUILT_IN:
        known = ', '.join(BUILT_IN)
        raise errors.BadConfig(f'--policy {text}', f'give NAME=FILE, or one of {known}')
    return name, BUILT_IN[name], None


def apply(conf, *options):
    """Sets options (mappings with keys ``group.name``) of a configuration; later ones count."""
    for name, value in [pair for some in (ALWAYS, *options) for pair in some.items()]:
        group, _, option = name.partition('.')
        conf.set_override(option, value, group=None if group == 'default' else group)
