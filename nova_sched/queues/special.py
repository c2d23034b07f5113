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
"""Special things, of which a job may request one in addition to its flavor: names and
extra specs."""

import dataclasses
import hashlib
import re
from collections.abc import Mapping

from nova_sched import errors
from nova_sched.groups.members import pci_aliases
from nova_sched.objects.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.state.request import Request
from nova_sched.state.traits import HYPERTHREADING

PCI, RESOURCE, TRAIT, ZONE = KINDS = ('pci', 'resource', 'trait', 'zone')
OPTION = '[queues] specials'
LONGEST = 255  # characters of a name
SYMBOL = re.compile('[A-Z0-9_]{1,255}')  # a resource class or a trait
READABLE = re.compile('[A-Za-z0-9._-]{1,64}')
ODD = re.compile('[^A-Za-z0-9._-]+')
SHOWN = 32  # characters that are kept of a name that needs a digest
# Every flavor has these, or they change the kind of its CPUs.
NO_SPECIALS = frozenset([VCPU, PCPU, MEMORY_MB, DISK_GB, HYPERTHREADING])


def word(name: str) -> str:
    """Returns a name as part of a queue name: short, plain, and unique.

    A long or special name gets a digest after the sign ~, which no plain name contains.
    """
    if READABLE.fullmatch(name):
        return name
    digest = hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=10).hexdigest()
    return f'{ODD.sub("-", name)[:SHOWN]}~{digest}'


@dataclasses.dataclass(frozen=True, slots=True)
class Special:
    """A requirement that a job may have in addition to its flavor: `pci:gpu`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind}:{self.name}'

    @property
    def word(self) -> str:
        return f'{self.kind}:{word(self.name)}'

    @classmethod
    def parse(cls, text: str) -> 'Special':
        """Raises BadConfig."""
        kind, _, name = (part.strip() for part in text.partition(':'))
        if kind not in KINDS:
            raise refused(text, f'it does not begin with one of {", ".join(KINDS)} and a colon')
        if not 1 <= len(name) <= LONGEST:
            raise refused(text, f'its name does not have 1 to {LONGEST} characters')
        if kind in (RESOURCE, TRAIT) and not SYMBOL.fullmatch(name):
            raise refused(text, 'its name is not of capital letters, digits and underscores')
        if kind in (RESOURCE, TRAIT) and name in NO_SPECIALS:
            raise refused(text, 'flavors say that')
        return cls(kind, name)


def refused(special: str, why: str) -> errors.BadConfig:
    """Returns the error for an invalid special thing."""
    return errors.BadConfig(OPTION, f'{special[:80]!r}: {why}')


def with_special(extra_specs: Mapping[str, str], special: Special) -> dict[str, str]:
    """Returns extra specs that also request a special thing; not for a zone."""
    key, value = extra_spec(special)
    if special.kind == PCI and key in extra_specs:
        value = f'{extra_specs[key]},{value}'
    return {**extra_specs, key: value}


def extra_spec(special: Special) -> tuple[str, str]:
    """Returns the extra spec with which a flavor requests the same; not for a zone."""
    if special.kind == PCI:
        return pci_aliases.EXTRA_SPEC, f'{special.name}:1'
    if special.kind == RESOURCE:
        return f'resources:{special.name}', '1'
    return f'trait:{special.name}', 'required'


def mentions(request: Request, special: Special) -> bool:
    """Whether a request contains a special thing, either as required or as forbidden."""
    if special.kind == ZONE:
        return request.availability_zone is not None
    if special.kind == PCI:
        return any(one.alias_name == special.name for one in request.pieces.requests)
    if special.kind == RESOURCE:
        within = any(special.name in group.classes for group in request.groups)
        return (
            within
            or special.name in request.resources
            or extra_spec(special)[0] in request.extra_specs
        )
    named = (
        request.required_traits,
        request.forbidden_traits,
        request.root_required,
        request.root_forbidden,
        *(group.required | group.forbidden for group in request.groups),
    )
    return (
        any(special.name in traits for traits in named)
        or extra_spec(special)[0] in request.extra_specs
    )
