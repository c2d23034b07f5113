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
"""RequiredTraits, always on: the equivalent of Placement's required and forbidden traits."""

import numpy as np

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.conf import CONF
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import LASTING, HostFacts
from nova_sched.state.traits import HYPERTHREADING, OWNER, suggested

OF_EVERY_NODE = frozenset([VCPU, PCPU, MEMORY_MB, DISK_GB])


class RequiredTraits(Filter):
    """The host has every required trait of flavor and image, and none of the forbidden ones.

    A device may have a required trait instead, if the request gets resources outside of groups
    from devices below the host. ChildProviders checks whether it is the right device. A CPU thread
    policy requires cores of several threads, or of one. This does not apply where shared CPUs
    replace dedicated ones. Of a cloud whose compute services all report the owner of their
    providers, only Nova's own nodes qualify.
    """

    for_tenants = 'they do not have the requested traits'
    run_filter_once_per_request = True
    host_facts = LASTING | HostFacts.AMOUNTS | HostFacts.PROVIDERS
    request_facts = (
        'required_traits',
        'forbidden_traits',
        'root_required',
        'root_forbidden',
        'sibling_threads',
        'fallback_vcpus',
        'resource_classes',
    )

    def mask(self, hosts, request):
        fits = True
        for _, _, right in self._asked(hosts, request):
            fits = fits & right
        return fits

    def depends_on(self, request):
        threads = request.sibling_threads
        if not OF_EVERY_NODE.issuperset(request.resource_classes) or (
            request.fallback_vcpus and threads is not None
        ):
            return None  # inventories change
        of_root = request.root_required, request.root_forbidden
        return request.required_traits, request.forbidden_traits, *of_root, threads

    def why(self, hosts, request, rows):
        said = []
        for trait, verdict, right in self._asked(hosts, request):
            if lacking := np.count_nonzero(~right[rows]):
                has = _elsewhere(hosts, trait, right, rows) if verdict == 'required' else ''
                said.append((lacking, f'{trait} is {verdict}{has}'))
        return '; '.join(
            text if number == len(rows) else f'{text} ({reasons.count(number, "host")})'
            for number, text in said
        )

    @staticmethod
    def _asked(hosts, request):
        """Yield each trait, the verdict on it, and the rows that meet it."""
        below = _devices_count(hosts, request) if request.required_traits else False
        for trait in sorted(request.required_traits):
            has = hosts.has_trait(trait)
            yield (
                trait,
                'required',
                has if below is False else has | (below & hosts.has_trait_below(trait)),
            )
        owner = {OWNER} if hosts.is_owned else set()
        for trait in sorted(owner | request.root_required):
            yield trait, 'required', hosts.has_trait(trait)
        for trait in sorted(request.forbidden_traits | request.root_forbidden):
            yield trait, 'forbidden', ~hosts.has_trait(trait)
        if request.sibling_threads is not None:
            has = hosts.has_trait(HYPERTHREADING)
            right = has if request.sibling_threads else ~has
            if request.fallback_vcpus and not CONF.workarounds.disable_fallback_pcpu_query:
                right = right | ~hosts.has_class(PCPU)
            yield HYPERTHREADING, 'required' if request.sibling_threads else 'forbidden', right


def _devices_count(hosts, request):
    """Return the rows where only a device can give some resource class; False if there are
    none."""
    rows, others = False, request.resource_classes - OF_EVERY_NODE
    for name in others and others & hosts.child_classes:
        rows = rows | (~hosts.has_class(name) & hosts.has_below(name))
    return rows


def _elsewhere(hosts, trait, has, rows):
    """Return how many of all hosts have the trait; for a single host, that it lacks it. A trait
    that none has may be misspelled."""
    number = np.count_nonzero(has)
    unknown = '' if number else suggested(trait, hosts.trait_names())
    if len(rows) == 1:
        return f', the host lacks it{unknown}'
    if number:
        return f', {number} of all {len(has)} hosts have it'
    return f', no host has it{unknown}'
