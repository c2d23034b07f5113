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
"""The filters and weighers that exist, and those that the configuration enables."""

import dataclasses
import importlib
import importlib.metadata
import inspect
import logging

import stevedore

from nova_sched import errors
from nova_sched.conf.filter_scheduler import ALL_FILTERS, ALL_WEIGHERS
from nova_sched.filters import Filter
from nova_sched.filters.child_providers import ChildProviders
from nova_sched.filters.disabled_compute import DisabledCompute
from nova_sched.filters.exclusive_domain import ExclusiveDomain
from nova_sched.filters.foreign import adopt as adopt_filter
from nova_sched.filters.image_metadata import ImageMetadata
from nova_sched.filters.image_type_support import ImageTypeSupport
from nova_sched.filters.isolated_aggregates import IsolatedAggregates
from nova_sched.filters.requested_aggregates import RequestedAggregates
from nova_sched.filters.requested_zone import RequestedZone
from nova_sched.filters.required_traits import RequiredTraits
from nova_sched.filters.resource_capacity import ResourceCapacity
from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.filters.tenant_aggregates import TenantAggregates
from nova_sched.filters.understood import Understood
from nova_sched.weighers import Weigher
from nova_sched.weighers.foreign import adopt as adopt_weigher
from nova_sched.words import question

LOG = logging.getLogger(__name__)

CLOSE_RULE = 0.8  # all names of filters end with the same letters


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one scheduler: ``always`` before ``filters``, in order, then ``weighers``."""

    always: tuple[Filter, ...] = ()
    filters: tuple[Filter, ...] = ()
    weighers: tuple[Weigher, ...] = ()


def always():
    """The filters for checks that Nova leaves to Placement. Configurations from Nova rely on
    these.

    Fixed properties of a host come first, then its state. The last filter of a refusal then names
    the true cause: all hosts of a zone are disabled, and not that the other hosts are elsewhere.
    """
    return (
        Understood(),
        RequestedZone(),
        RequestedAggregates(),
        TenantAggregates(),
        IsolatedAggregates(),
        ImageTypeSupport(),
        ImageMetadata(),
        RequiredTraits(),
        DisabledCompute(),
        ExclusiveDomain(),
        ResourceCapacity(),
        ChildProviders(),
    )


def policies():
    """The filters for the hard policies of server groups."""
    return ServerGroupAntiAffinityFilter(), ServerGroupAffinityFilter()


def with_policies(filters):
    """The filters, followed by the server group filters that they lack: claims are validated by
    these too."""
    names = {rule.name for rule in filters}
    return filters + tuple(rule for rule in policies() if rule.name not in names)


class PlugIns(stevedore.ExtensionManager):
    """The plug-ins of a namespace in the packages that are installed at this moment.

    stevedore caches its own list in a file, which shows a package's new plug-ins up to two minutes
    late. A running process keeps that list for its lifetime: a reload would not find new plug-ins.
    """

    def list_entry_points(self):
        return list(importlib.metadata.entry_points(group=self.namespace))


def known(namespace):
    """Classes by name from the entry points of a namespace, in the order of their names."""
    manager = PlugIns(
        namespace,
        on_load_failure_callback=lambda manager, entry_point, error: LOG.error(
            'Plug-in %s of %s cannot be loaded: %s', entry_point.name, manager.namespace, error
        ),
    )
    return {name: manager[name].plugin for name in sorted(manager.names())}


def filters(enabled, available=(ALL_FILTERS,)):
    """The enabled filters, in order. Raises UnknownRule for a name that no package provides, and
    for a class that cannot be instantiated."""
    ours = known('nova_sched.filters')
    classes = dict(ours)
    for path in available:
        if path != ALL_FILTERS:
            classes.update(_classes(path, ours, 'nova.scheduler.filters.', 'available_filters'))
    missing = [name for name in enabled if name not in classes]
    if missing:
        hints = [(name, question(name, classes, CLOSE_RULE)) for name in missing]
        named = ', '.join(f'{name} ({hint})' if hint else name for name, hint in hints)
        raise _unknown('enabled_filters', f'no filter is named {named}', classes)
    return tuple(_made(adopt_filter, classes[name], 'enabled_filters') for name in enabled)


def weighers(paths=(ALL_WEIGHERS,)):
    """The configured weighers: all built-in ones, names of entry points, or dotted paths. Raises
    UnknownRule."""
    ours, chosen = known('nova_sched.weighers'), {}
    for path in paths:
        if path == ALL_WEIGHERS:
            chosen.update(ours)
        else:
            chosen.update(_classes(path, ours, 'nova.scheduler.weights.', 'weight_classes'))
    return tuple(_made(adopt_weigher, weigher, 'weight_classes') for weigher in chosen.values())


def _classes(path, ours, nova, option):
    """The classes that a path means: a built-in rule by its name or by Nova's path, else the
    object at that path.

    The object is a class, or a function that returns a list of classes.
    """
    module, _, name = path.rpartition('.')
    if name in ours and (not module or path.startswith(nova)):
        return {name: ours[name]}
    try:
        loaded = getattr(importlib.import_module(module), name)
        return {
            rule.__name__: rule for rule in ([loaded] if inspect.isclass(loaded) else loaded())
        }
    except Exception as error:  # any error in a third-party module
        raise _unknown(option, f'{path} cannot be loaded: {error}', ours) from error


def _made(adopt, rule_class, option):
    """An instance of a rule class, built-in or adopted."""
    try:
        return adopt(rule_class)
    except Exception as error:
        why = f'{rule_class.__name__} cannot be made: {error}'
        raise errors.UnknownRule(f'filter_scheduler.{option}', why) from error


def _unknown(option, what, classes):
    return errors.UnknownRule(
        f'filter_scheduler.{option}', f'{what}; there are {", ".join(sorted(classes))}'
    )
