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

"""Every option of the service, registered on oslo.config's global object.

The global one, because oslo.messaging registers its tracing options nowhere else. The engine has
them as Settings, which ``service.py`` makes again after a reload; rules and ``rpc`` read options
when they are called.
"""

import copy
import functools
import importlib.metadata
import logging
import math

from oslo_config import cfg

from nova_sched import extension
from nova_sched.conf import (
    api,
    api_database,
    base,
    candidates,
    claims,
    cluster,
    compute,
    database_limits,
    explain,
    filter_scheduler,
    groups,
    metrics,
    metrics_export,
    neutron,
    notifications,
    nova_api,
    pci,
    placement,
    quota,
    scheduler,
    stats,
    topology,
    tracing,
    workarounds,
)

LOG = logging.getLogger(__name__)

CONF = cfg.CONF
OWN = (
    api,
    api_database,
    base,
    candidates,
    claims,
    cluster,
    compute,
    database_limits,
    explain,
    filter_scheduler,
    groups,
    metrics,
    metrics_export,
    neutron,
    notifications,
    nova_api,
    pci,
    placement,
    quota,
    scheduler,
    stats,
    topology,
    tracing,
    workarounds,
)
# Those with options of keystoneauth, which take long to import.
OF_SERVICES = (neutron, nova_api, placement)

# Entry points of packages with filters or weighers.
RULES = frozenset(['nova_sched.filters', 'nova_sched.weighers'])


def _modules():
    """The modules of options of the core and of all extensions, registered."""
    for module in OWN:
        module.register_opts(CONF)
        yield module.GROUP, module
    for name, modules in extension.offered(list, 'options'):
        try:
            for module in modules:
                module.register_opts(CONF)
                yield str(module.GROUP), module
        except Exception:
            LOG.exception('The options of the extension %s cannot be registered', name)


MODULES = tuple(module for _, module in sorted(_modules(), key=lambda pair: pair[0]))


def list_opts():
    """All options by group, for oslo-config-generator."""
    late = {module.GROUP: module.keystone_opts() for module in OF_SERVICES}
    return [
        (module.GROUP, [*copy.deepcopy(module.OPTS), *late.get(module.GROUP, ())])
        for module in MODULES
    ]


def plug_in_opts():
    """Options by group of the packages with filters or weighers, as these packages list them for
    oslo.config."""
    for point in importlib.metadata.entry_points(group='oslo.config.opts'):
        groups = {entry_point.group for entry_point in point.dist.entry_points}
        if point.name == 'nova_sched' or groups.isdisjoint(RULES):
            continue
        try:
            options = [(str(group or 'DEFAULT'), opts) for group, opts in point.load()()]
        except Exception as error:  # noqa: BLE001, a plug-in may raise any error
            LOG.error('The options of plug-in %s cannot be read: %s', point.name, error)
            continue
        yield from options


def register_plug_in_opts(conf):
    """Register the options of plug-ins, for a process that checks them before it uses them."""
    for group, opts in plug_in_opts():
        conf.register_opts(opts, group=None if group == 'DEFAULT' else group)


def ratios(group, option):
    """The (name, ratio) pairs of a list option whose items have the form `name=ratio`; ratios are
    finite.

    Other items are logged, once for each value of the option, and skipped.
    """
    return _ratios(f'[{group}] {option}', tuple(CONF[group][option]))


@functools.lru_cache(maxsize=16)
def _ratios(option, items):
    pairs, bad = [], []
    for item in items:
        name, _, text = item.partition('=')
        try:
            ratio = float(text)
        except ValueError:
            ratio = math.nan
        if name and math.isfinite(ratio):
            pairs.append((name, ratio))
        else:
            bad.append(item)
    if bad:
        LOG.warning('%s has items that do not read name=ratio: %s', option, ', '.join(bad))
    return tuple(pairs)
