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

"""Options of the [pci] group, as in Nova: aliases of PCI devices in flavors."""

from oslo_config import cfg

GROUP = 'pci'
OPTS = [
    cfg.MultiStrOpt(
        'alias',
        default=[],
        help='A name for PCI devices, for the extra spec `pci_passthrough:alias` of '
        'flavors, as in Nova: a JSON object with `name`; `vendor_id` and `product_id` '
        '(four hexadecimal digits) or `resource_class`; `device_type` (`type-PCI`, '
        '`type-PF` or `type-VF`); `numa_policy` (`legacy`, `preferred`, `required` or '
        '`socket`); `traits`; `live_migratable`. Several of one name are alternatives. '
        'Only members of groups need it, because they are planned before Nova asks for '
        'the devices: copy it from the configuration of the API. May be given several '
        'times.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
