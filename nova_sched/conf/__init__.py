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
from oslo_db import options as db_options

from nova_sched import extension
from nova_sched.conf import (
    api,
    base,
    claims,
    cluster,
    filter_scheduler,
    groups,
    quota,
    scheduler,
    services,
    telemetry,
)

LOG = logging.getLogger(__name__)

CONF = cfg.CONF
OWN = (
    api,
    base,
    claims,
    cluster,
    filter_scheduler,
    groups,
    quota,
    scheduler,
    services,
    telemetry,
)

# Entry points of packages with filters or weighers.
RULES = frozenset(['nova_sched.filters', 'nova_sched.weighers'])


def _register_own_opts(conf):
    for module in OWN:
        for group, opts in module.OPTS.items():
            conf.register_opts(opts, group=None if group == 'DEFAULT' else group)
    conf.register_opts(db_options.database_opts, group='database')


def _register_extensions(conf):
    """The modules of options of all extensions, as they are registered."""
    for name, modules in extension.offered(list, 'options'):
        try:
            for module in modules:
                module.register_opts(conf)
                yield module
        except Exception:
            LOG.exception('The options of the extension %s cannot be registered', name)


_register_own_opts(CONF)
EXTENSION_MODULES = tuple(_register_extensions(CONF))


def register_opts(conf):
    """Register every option of the core and of the extensions."""
    _register_own_opts(conf)
    for module in EXTENSION_MODULES:
        module.register_opts(conf)


def list_opts():
    """All options by group, for oslo-config-generator."""
    groups = [
        *(group for module in OWN for group in module.OPTS.items()),
        *((module.GROUP, module.OPTS) for module in EXTENSION_MODULES),
    ]
    listed = []
    for group, opts in sorted(groups, key=lambda pair: str(pair[0])):
        late = services.keystone_opts(group) if group in services.OPTS else ()
        listed.append((group, [*copy.deepcopy(opts), *late]))
    return listed


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
