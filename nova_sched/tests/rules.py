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
"""Every filter and weigher of the package, for the tests that hold for all of them."""

import importlib
import inspect
import pkgutil

from nova_sched import filters, weighers
from nova_sched.extensions.optimize.fragmentation_weigher import FragmentationWeigher
from nova_sched.filters.foreign import ForeignFilter
from nova_sched.weighers.foreign import ForeignWeigher

ADAPTERS = (ForeignFilter, ForeignWeigher)


def _classes(room, base):
    for module in pkgutil.iter_modules(room.__path__):
        found = importlib.import_module(f'{room.__name__}.{module.name}')
        for one in vars(found).values():
            if inspect.isclass(one) and issubclass(one, base) and one.__module__ == found.__name__:
                yield one


FILTERS = {one.__name__: one for one in _classes(filters, filters.Filter) if one not in ADAPTERS}
_WEIGHERS = [*_classes(weighers, weighers.Weigher), FragmentationWeigher]
WEIGHERS = {
    one.__name__: one
    for one in sorted(_WEIGHERS, key=lambda one: one.__name__)
    if one not in ADAPTERS
}
