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
"""Child providers of a node: devices with inventories and traits, and the ones that a request
gets.

``fit`` finds providers for a request, ``fits`` says whether there are any, ``take`` allocates
them, ``hold`` allocates them even beyond their inventories, ``give_back`` frees them, and
``why_not`` reports what is short. ``TreeSummary`` shows from a few figures that a request cannot
fit.
"""

from nova_sched.hardware.providers.fit import (
    SHARED_STEPS,
    ProviderMiss,
    fit,
    fits,
    nearest_miss,
    why_not,
)
from nova_sched.hardware.providers.tree import (
    Allotted,
    Provider,
    ProviderRequest,
    ProviderTree,
    ResourceGroup,
    Stock,
    TreeSummary,
    give_back,
    hold,
    less_known,
    on_root,
    take,
)

__all__ = [
    'SHARED_STEPS',
    'Allotted',
    'Provider',
    'ProviderMiss',
    'ProviderRequest',
    'ProviderTree',
    'ResourceGroup',
    'Stock',
    'TreeSummary',
    'fit',
    'fits',
    'give_back',
    'hold',
    'less_known',
    'nearest_miss',
    'on_root',
    'take',
    'why_not',
]
