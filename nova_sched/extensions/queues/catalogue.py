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
"""The catalogue: flavors and special things, and the queues that result from them.

A job may request one special thing in addition to its flavor: a zone, a trait, a resource class or
a PCI device. Each flavor is a queue, and each flavor with one special thing is another. A flavor
that requests NUMA cells is in the catalogue without queues, because a queue cannot express the
free cells of a node.
"""

import contextlib
import dataclasses
import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nova_sched import errors, words
from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.groups.definition import Member, MemberFlavor
from nova_sched.groups.members import member_spec, pci_aliases
from nova_sched.hardware import pci
from nova_sched.objects import RequestSpec
from nova_sched.state.report import MAX_AMOUNT
from nova_sched.state.request import Request
from nova_sched.state.spec import READERS
from nova_sched.state.traits import HYPERTHREADING

PCI, RESOURCE, TRAIT, ZONE = KINDS = ('pci', 'resource', 'trait', 'zone')
OPTION = '[queues] specials'
MAX_TEXT = 255  # characters of a name, or in an extra spec
SYMBOL = re.compile('[A-Z0-9_]{1,255}')  # a resource class or a trait
READABLE = re.compile('[A-Za-z0-9._-]{1,64}')
ODD = re.compile('[^A-Za-z0-9._-]+')
MAX_SHOWN = 32  # characters that are kept of a name that needs a digest
# Every flavor has these, or they change the kind of its CPUs.
NO_SPECIALS = frozenset([VCPU, PCPU, MEMORY_MB, DISK_GB, HYPERTHREADING])


def word(name: str) -> str:
    """Return a name as part of a queue name: short, plain, and unique.

    A long or special name gets a digest after the sign ~, which no plain name contains.
    """
    if READABLE.fullmatch(name):
        return name
    digest = hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=10).hexdigest()
    return f'{ODD.sub("-", name)[:MAX_SHOWN]}~{digest}'


@dataclasses.dataclass(frozen=True, slots=True)
class Special:
    """A requirement that a job may have in addition to its flavor: `pci:gpu`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind}:{self.name}'

    @classmethod
    def parse(cls, text: str) -> 'Special':
        """Raise BadConfig."""
        kind, _, name = (part.strip() for part in text.partition(':'))
        if kind not in KINDS:
            raise refused(text, f'it does not begin with one of {", ".join(KINDS)} and a colon')
        if not 1 <= len(name) <= MAX_TEXT:
            raise refused(text, f'its name does not have 1 to {MAX_TEXT} characters')
        if kind in (RESOURCE, TRAIT) and not SYMBOL.fullmatch(name):
            raise refused(text, 'its name is not of capital letters, digits and underscores')
        if kind in (RESOURCE, TRAIT) and name in NO_SPECIALS:
            raise refused(text, 'flavors say that')
        return cls(kind, name)


def refused(special: str, why: str) -> errors.BadConfig:
    """Return the error for an invalid special thing."""
    return errors.BadConfig(OPTION, f'{special[:80]!r}: {why}')


def with_special(extra_specs: Mapping[str, str], special: Special) -> dict[str, str]:
    """Return extra specs that also request a special thing; not for a zone."""
    key, value = extra_spec(special)
    if special.kind == PCI and key in extra_specs:
        value = f'{extra_specs[key]},{value}'
    return {**extra_specs, key: value}


def extra_spec(special: Special) -> tuple[str, str]:
    """Return the extra spec with which a flavor requests the same; not for a zone."""
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
        return any(piece.alias_name == special.name for piece in request.pieces.requests)
    if special.kind == RESOURCE:
        named = [request.resources.keys(), *(group.classes for group in request.groups)]
    else:
        named = [
            request.required_traits,
            request.forbidden_traits,
            request.root_required,
            request.root_forbidden,
            *(group.required | group.forbidden for group in request.groups),
        ]
    key, _ = extra_spec(special)
    return key in request.extra_specs or any(special.name in names for names in named)


NUMA_POLICY = 'hw:pci_numa_affinity_policy'
FORM = 1  # version of the to_plain format

AMOUNTS = ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'swap')
# A list is made of a flavor's CPUs, so its length must be limited.
MAX_AMOUNTS = dict.fromkeys(AMOUNTS, MAX_AMOUNT // 1024) | {'vcpus': 2**16}

Alias = tuple[str, Sequence[Mapping[str, str]]]  # NUMA policy, and the matching devices


@dataclasses.dataclass(frozen=True, slots=True)
class Queue:
    """A flavor with or without a special thing; its name is safe for a broker: `tiny+pci:gpu`."""

    flavor: MemberFlavor = dataclasses.field(compare=False)
    special: Special | None = None
    name: str = ''

    @classmethod
    def of(cls, flavor: MemberFlavor, special: Special | None = None) -> 'Queue':
        own = word(flavor.name or '')
        if special is None:
            return cls(flavor, None, own)
        return cls(flavor, special, f'{own}+{special.kind}:{word(special.name)}')

    def __str__(self) -> str:
        """Return its name with the operator's spelling."""
        return f'{self.flavor.name}' + (f'+{self.special}' if self.special else '')


def flavor_of(row: Mapping[str, Any]) -> MemberFlavor:
    """Return a flavor from plain values, as in the table of flavors.

    Raises InvalidRequest with the field and the reason. Extra specs are validated when a catalogue
    is made of the flavor.
    """
    name = row.get('name')
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= MAX_TEXT
        or not name.isprintable()
        or name.strip() != name
    ):
        why = (
            f'a flavor needs a printable one of 1 to {MAX_TEXT} characters, '
            'without blanks around it'
        )
        raise errors.InvalidRequest('flavor name', why)
    for field in AMOUNTS:
        amount, least = row.get(field, 0), 1 if field in ('vcpus', 'memory_mb') else 0
        if type(amount) is not int or not least <= amount <= MAX_AMOUNTS[field]:
            why = f'{amount!r:.80} is not a whole number from {least} to {MAX_AMOUNTS[field]}'
            raise errors.InvalidRequest(f'flavor {name}, {field}', why)
    specs = row.get('extra_specs') or {}
    if not isinstance(specs, Mapping):
        raise errors.InvalidRequest(f'flavor {name}, extra_specs', 'it is not a mapping')
    for key, value in specs.items():
        where = f'flavor {name}, extra spec {key!r:.80}'
        if not isinstance(key, str) or not isinstance(value, str):
            raise errors.InvalidRequest(where, 'it is not text')
        if len(key) > MAX_TEXT or len(value) > MAX_TEXT:
            raise errors.InvalidRequest(where, f'more than {MAX_TEXT} characters')
    amounts = {field: row.get(field, 0) for field in AMOUNTS}
    return MemberFlavor(**amounts, extra_specs=dict(specs), name=name)


def checked_flavor(row: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """Return the row of a flavor, made at ``now_s``, from `name`, `vcpus`, `memory_mb` and other
    keys.

    Its `flavorid` defaults to its name. Raises InvalidRequest for an invalid flavor, and BadConfig
    for invalid aliases of PCI devices.
    """
    flavor = flavor_of(row)
    flavorid = row.get('flavorid') or flavor.name
    if not isinstance(flavorid, str) or not flavorid.isprintable() or len(flavorid) > MAX_TEXT:
        why = f'{flavorid!r:.80} is not printable text of at most {MAX_TEXT} characters'
        raise errors.InvalidRequest(f'flavor {flavor.name}, flavorid', why)
    for name in flavor.extra_specs:
        if why := words.why_internal(words.EXTRA_SPEC, name):
            raise errors.InvalidRequest(f'flavor {flavor.name}', why)
    amounts = {name: getattr(flavor, name) for name in AMOUNTS}
    checked = {
        'name': flavor.name,
        'flavorid': flavorid,
        **amounts,
        'extra_specs': dict(flavor.extra_specs),
    }
    Catalogue.of(0, [checked])
    return {**checked, 'created_s': now_s}


@dataclasses.dataclass(frozen=True)
class Catalogue:
    """Flavors and special things of one version; the higher version is the newer one.

    ``aliases`` of PCI devices default to those of the configuration. Raises InvalidRequest for an
    invalid flavor, and BadConfig for an invalid special thing or alias.
    """

    version: int
    flavors: tuple[MemberFlavor, ...]
    specials: tuple[Special, ...] = ()
    aliases: Mapping[str, Alias] | None = None
    bare: Mapping[str, Request] = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.aliases is None:
            object.__setattr__(self, 'aliases', pci_aliases.configured())
        seen = set[Special]()
        for special in self.specials:
            if special in seen:
                raise refused(str(special), 'it is there twice')
            if special.kind == PCI and special.name not in (self.aliases or {}):
                raise refused(str(special), f'there is no such alias in {pci_aliases.OPTION}')
            if special.kind == PCI and not re.fullmatch(r'[^,:]+', special.name):
                raise refused(
                    str(special), 'no extra spec can name an alias with a comma or a colon'
                )
            seen.add(special)
        bare: dict[str, Request] = {}
        for flavor in self.flavors:
            if flavor.name in bare:
                raise errors.InvalidRequest(f'flavor {flavor.name}', 'there are two of this name')
            flavor_of(dataclasses.asdict(flavor))
            request = self.request(Queue.of(flavor))
            if request.unsupported:
                where = f'flavor {flavor.name}, {request.unsupported[0]}'
                raise errors.InvalidRequest(where, 'no filter supports this extra spec')
            bare[str(flavor.name)] = request
        object.__setattr__(self, 'bare', bare)

    @classmethod
    def of(
        cls, version: int, rows: Iterable[Mapping[str, Any]], specials: Iterable[str] = ()
    ) -> 'Catalogue':
        """From rows of the flavor table and the texts of the option. Raises as the class does."""
        return cls(version, tuple(map(flavor_of, rows)), tuple(map(Special.parse, specials)))

    # Queues.

    @functools.cached_property
    def queues(self) -> tuple[Queue, ...]:
        """Return all queues; those of one flavor are adjacent.

        A flavor has no queue with a special thing that the flavor itself already mentions.
        """
        queues: list[Queue] = []
        for flavor in self.flavors:
            request = self.bare[str(flavor.name)]
            if request.pieces.guest is None:
                queues.append(Queue.of(flavor))
                queues += [
                    Queue.of(flavor, special)
                    for special in self.specials
                    if not mentions(request, special)
                ]
        return tuple(queues)

    @functools.cached_property
    def _by_name(self) -> Mapping[str, Queue]:
        return {queue.name: queue for queue in self.queues}

    def find(self, name: str) -> Queue | None:
        """Return the queue of that name."""
        return self._by_name.get(name)

    def queue(self, flavor_name: str | None, special: Special | None = None) -> Queue | None:
        """Return the queue of a flavor, with or without a special thing."""
        queue = self.find(Queue.of(MemberFlavor(0, 0, name=flavor_name), special).name)
        return queue if queue is not None and queue.flavor.name == flavor_name else None

    # The request of a queue's job.

    def spec(
        self,
        queue: Queue,
        instance_uuid: str | None = None,
        project_id: str | None = None,
        user_id: str | None = None,
    ) -> RequestSpec:
        """Return the RequestSpec of such a job, with a new UUID if none is given.

        Raises InvalidRequest.
        """
        flavor, special, zone = queue.flavor, queue.special, None
        if special is not None and special.kind == ZONE:
            zone = special.name
        elif special is not None:
            specs = with_special(flavor.extra_specs, special)
            flavor = dataclasses.replace(flavor, extra_specs=specs)
        member = Member(f'{flavor.name}', flavor, availability_zone=zone)
        try:
            return member_spec.spec_of(member, project_id, user_id, instance_uuid, self.aliases)
        except errors.InvalidRequest as error:
            where = str(error.args[0]).removeprefix(f'member {member.path}').removeprefix(', ')
            raise _bad(queue, where, error.args[1]) from None

    def request(self, queue: Queue) -> Request:
        """Return the Request of such a job, without an instance. Raises InvalidRequest."""
        spec, facts = self.spec(queue), {}
        for name, reader in READERS.items():
            try:
                facts[name] = reader(spec)
            except (ValueError, TypeError, AttributeError) as error:
                raise _bad(queue, name, str(error)) from None
        return Request(**facts, spec=spec)

    def device(self, flavor: MemberFlavor, special: Special) -> pci.PciRequest:
        """Return the PCI request of a special thing, which a queue adds to its flavor."""
        policy = flavor.extra_specs.get(NUMA_POLICY, '')
        wanted = dict([extra_spec(special), (NUMA_POLICY, policy)])
        (device,) = pci_aliases.requests(wanted, {}, self.aliases)
        return pci.PciRequest.of(device)

    # As JSON values.

    def to_plain(self) -> dict[str, Any]:
        """Return plain values including the aliases, so that a reader needs none in its
        configuration."""
        return {
            'form': FORM,
            'version': self.version,
            'flavors': [dataclasses.asdict(flavor) for flavor in self.flavors],
            'specials': [str(special) for special in self.specials],
            'aliases': {name: [policy, list(map(dict, devices))]
                        for name, (policy, devices) in (self.aliases or {}).items()},
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> 'Catalogue':
        """From the values of ``to_plain``, also after JSON. Raises as the class does.

        Raises IncompatibleObject for another release's form, MalformedObject for anything else.
        """
        try:
            if plain['form'] != FORM:
                raise errors.IncompatibleObject('Catalogue', plain['form'], FORM)
            flavors = tuple(map(flavor_of, plain['flavors']))
            specials = tuple(map(Special.parse, plain['specials']))
            aliases = {
                name: (policy, tuple(devices))
                for name, (policy, devices) in plain['aliases'].items()
            }
            return cls(words.whole(plain['version']), flavors, specials, aliases)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise errors.MalformedObject(
                'Catalogue', f'{type(error).__name__} {error!s:.100}'
            ) from None


def _bad(queue: Queue, where: str, why: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(f'flavor {queue.flavor.name}, {where}'.removesuffix(', '), why)


def bare_requests(rows: Iterable[Mapping[str, Any]]) -> list[Request]:
    """Return the request of each flavor; one that cannot be read, or asks for what no filter
    supports, has none."""
    requests: list[Request] = []
    for row in rows:
        with contextlib.suppress(errors.SchedError):
            requests += Catalogue.of(0, [row]).bare.values()
    return requests
