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
"""The reason why a group cannot be placed: the failing count, the conflicting policies and the
fit.

Policies that cannot be kept on an empty cluster cannot be kept on a full one. ``ideal`` has the
domains of a real cluster. ``imagined`` has as many domains of every level as the group can use,
for authors without access to a cluster.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from nova_sched.groups.arrays import bounds, policies
from nova_sched.groups.arrays.bounds import Failure
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.problem import NOWHERE, Problem, Rule
from nova_sched.groups.definition import Definition
from nova_sched.groups.exact.worker import Solver
from nova_sched.groups.limits import Clock, PlanLimits, TimeLimit
from nova_sched.groups.quick import greedy

# (problem, seconds) -> True: there is a placement; False: there is none; None: not known.
Settle = Callable[[Problem, float], bool | None]
# (problem, seconds) -> hosts [M] of as many as fit, -1 for the others, or None; and whether no
# more fit.
Largest = Callable[[Problem, float], tuple[np.ndarray | None, bool]]
Families = list[list[int]]  # numbers of rules that are alike
Nests = Collection[tuple[str, str]]  # names of levels, narrow and wide

SETTLE_S = 0.3  # for each single question
CONTRADICTION_SHARE, CORE_SHARE = 0.3, 0.8  # of the time limit, at which each part ends
FITS_S = 0.5
QUICK_S = 0.1  # of the greedy search
MAX_HOSTS = 20_000  # limit on hosts of ``imagined``; a group that could use more is not analysed
NO_HOSTS = 'There are no hosts.'  # and members to place: no policy is the cause
CONTRADICTION = 'nova_sched.groups.exact.tasks:contradiction'


@dataclasses.dataclass(frozen=True)
class Reason:
    """The reason why there is no placement, or none was found.

    ``words`` are for the user: they name members, policies and domains, but no host. ``core``:
    names of required policies that cannot be kept together; None if not known, empty if there is
    not enough capacity even without policies. ``minimal``: without any one of them the others
    could be kept (see ``core``). ``contradicts``: they could not be kept on an empty cluster
    of the same domains either. ``fits``: how many members could be placed at once.
    """

    words: str
    failing: Failure | None = None
    core: tuple[str, ...] | None = None
    minimal: bool = False
    contradicts: bool = False
    fits: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the same as mappings, lists and plain values, which JSON can carry."""
        failing = None
        if self.failing is not None:
            failing = {
                'members': self.failing.members,
                'dimension': self.failing.dimension,
                'domain': self.failing.domain,
                'held': int(self.failing.held),
                'asked': int(self.failing.asked),
            }
        return {
            'words': self.words,
            'failing': failing,
            'core': None if self.core is None else list(self.core),
            'minimal': self.minimal,
            'contradicts': self.contradicts,
            'fits': self.fits,
        }


def explain(
    problem: Problem,
    settle: Settle,
    largest: Largest | None,
    seconds: float,
    proven: bool,
    clock: Clock = time.thread_time,
) -> tuple[Reason, np.ndarray | None]:
    """Return the reason, as far as the time allows, and a whole placement, if one is found
    meanwhile.

    ``proven``: it is known that there is no placement. Otherwise only determines how many members
    fit. ``seconds`` are of processor time, by the ``clock``.
    """
    if has_no_hosts(problem):
        return Reason(NO_HOSTS, failure(problem), core=(), minimal=True), None
    limit = TimeLimit(seconds, clock)
    families: list[list[int]] | None = None
    minimal, contradicts, at = False, False, problem
    if proven:
        whole = ideal(problem)
        contradicts = settle(whole, limit.left(CONTRADICTION_SHARE)) is False
        at = whole if contradicts else problem  # both number their rules separately
        families, minimal = core(at, (counted, settle), lambda: limit.left(CORE_SHARE))
    failing = (
        None if contradicts else failure(problem, None if families is None else _flat(families))
    )
    hosts, is_most = None, False
    left = limit.left()
    if largest is not None and left > 0:
        hosts, is_most = largest(problem, min(left, FITS_S))
    fits = None if hosts is None else _fits(problem, hosts, is_most)
    words = _words(failing, _names(at, families), contradicts, fits)
    names = None if families is None else tuple(_name(at, number) for number in _flat(families))
    whole_placement = hosts if hosts is not None and (hosts >= 0).all() else None
    return Reason(words, failing, names, minimal, contradicts, fits), whole_placement


def quick(problem: Problem, seconds: float) -> bool | None:
    """Settle by counting and by the greedy search alone."""
    compiled = compile(problem)
    if bounds.first(compiled) is not None:
        return False
    # Nearly all its results come from the first attempt.
    hosts = greedy.Search(compiled, 0, TimeLimit(min(seconds, QUICK_S))).attempt(0)
    return None if hosts is None or policies.broken(problem, hosts) else True


def counted(problem: Problem, seconds: float = 0.0) -> bool | None:  # noqa: ARG001 it is a Settle
    """Settle by counting alone, which can only prove that there is no placement."""
    return None if bounds.first(problem) is None else False


def explained(
    problem: Problem,
    is_certain: bool,
    seconds: float,
    solver: Solver | None,
    count: Callable[..., str],
) -> str | None:
    """Return why the policies cannot be kept on any cluster of these domains, as text, for a
    problem for which ``quick`` has found no placement; None if it is not known.

    ``is_certain``: whether there is none. ``count``: ``counted_clash``, or what runs it elsewhere.
    """
    answer = None
    if solver is not None and seconds > 0:
        answer = solver.ask(CONTRADICTION, problem, seconds=seconds, wait_s=seconds)
    if answer is None and is_certain:
        answer = count(problem, seconds=seconds)
    return answer or None


def contradiction_anywhere(
    group: Definition,
    levels: Sequence[str],
    nests: Nests = frozenset(),
    solver: Solver | None = None,
) -> str | None:
    """Return the required policies that conflict on every cluster, as text; None if none is known.

    ``levels`` are as in ``imagined``. ``nests``, as from ``DomainTopology.nests``, are the pairs
    of levels that nest on all clusters in question. ``solver``: a ``worker.Solver``, for conflicts
    that are not obvious.
    """
    problem, is_certain = suspected(group, levels, nests)
    if problem is None:
        return None
    return explained(problem, is_certain, PlanLimits().explain_s, solver, counted_clash)


def suspected(
    group: Definition, levels: Sequence[str], nests: Nests
) -> tuple[Problem | None, bool]:
    """Return the problem of ``contradiction_anywhere``, and whether it is certain, for
    ``explained``. The problem is None if there is none, or the group is too large to know."""
    suspect = imagined(group, levels, nests)
    known = True if suspect is None else quick(ideal(suspect), QUICK_S)
    return (None if known else suspect), known is False


def counted_clash(problem: Problem, seconds: float) -> str:
    """Return the text of ``clash`` as far as counting finds it; else ''."""
    return clash(problem, counted, seconds)


def clash(
    problem: Problem, settle: Settle, seconds: float, clock: Clock = time.thread_time
) -> str:
    """Return why the policies cannot be kept on any cluster of these domains, as text; '' if they
    can, or it is not known."""
    if has_no_hosts(problem):
        return NO_HOSTS
    limit = TimeLimit(seconds, clock)
    whole = ideal(problem)
    if settle(whole, seconds * CONTRADICTION_SHARE) is not False:
        return ''
    families, _ = core(whole, (counted, settle), limit.left)
    return _words(None, _names(whole, families), True, None)


def failure(problem: Problem, core: Iterable[int] | None = None) -> Failure | None:
    """Return a count that fails, without names of hosts; only for policies in ``core``, if
    given."""
    if has_no_hosts(problem):
        return Failure(
            'there are no hosts', 'all members', 'hosts', 'the cluster', 0, problem.member_count
        )
    failing = None if core is None else bounds.first(only(problem, core))
    failing = failing or bounds.first(problem)
    if failing is None:
        return None
    level, _, name = failing.domain.partition(' ')
    # A node that reports no domain is a domain by its own name.
    if name and name in problem.domain_names[0]:
        plain = f'a {level} of one host'
        failing = dataclasses.replace(
            failing, words=failing.words.replace(failing.domain, plain), domain=plain
        )
    return failing


def has_no_hosts(problem: Problem) -> bool:
    """Return whether there is no host for the members to be placed."""
    return bool(problem.member_count) and not problem.host_count


def _fits(problem: Problem, hosts: np.ndarray, is_most: bool) -> str:
    """Return how many members are placed, in total and for each group with missing members."""
    groups: dict[str, list[int]] = {}
    for name, host in zip(problem.names, hosts.tolist(), strict=True):
        counts = groups.setdefault(name.rpartition('/')[0] or name, [0, 0])
        counts[0] += host >= 0
        counts[1] += 1
    short = [
        f'{group} {placed} of {count}'
        for group, (placed, count) in groups.items()
        if placed < count
    ]
    total = f'{"" if is_most else "at least "}{int((hosts >= 0).sum())} of {len(hosts)} members'
    named = ', '.join(short[:5]) + (
        f', and {len(short) - 5} more groups' if len(short) > 5 else ''
    )
    return f'{total} ({named})' if short else total


def _flat(families: list[list[int]]) -> list[int]:
    return sorted(number for family in families for number in family)


def _name(problem: Problem, number: int) -> str:
    return problem.rules[number].policy.name


def _names(problem: Problem, families: list[list[int]] | None) -> list[str] | None:
    """Return one name of each family, and how many are like it."""
    if families is None:
        return None
    return [
        _name(problem, family[0])
        + (f' (and {len(family) - 1} like it)' if len(family) > 1 else '')
        for family in families
    ]


def _words(
    failing: Failure | None, core: Sequence[str] | None, contradicts: bool, fits: str | None
) -> str:
    sentences = []
    if failing is not None:
        sentences.append(f'{failing.words}.')
    if contradicts and core and len(core) == 1:
        sentences.append(
            f'Even with nothing else on them, these hosts and domains do not allow {core[0]}.'
        )
    elif contradicts and core:
        sentences.append(
            f'These policies contradict each other, whatever is free: {_listed(core)}.'
        )
    elif core:
        sentences.append(f'The free capacity does not allow these policies: {_listed(core)}.')
    elif core is not None:
        sentences.append('There is not enough capacity for all members, even without policies.')
    if not sentences:
        sentences.append(
            'No placement was found in the time given; it is not proven that there is none.'
        )
    if fits is not None:
        sentences.append(f'What would fit: {fits}.')
    return ' '.join(sentences)


def _listed(names: Sequence[str], most: int = 8) -> str:
    rest = f', and {len(names) - most} more' if len(names) > most else ''
    return ', '.join(names[:most]) + rest


def core(
    problem: Problem, ways: Iterable[Settle], left: Callable[[], float]
) -> tuple[Families, bool]:
    """Return the numbers of required rules that cannot be kept together.

    The ``problem`` has no placement. The rules are grouped in families of alike rules: one kind,
    one level, members of the same flavors, such as the rules of many equal cells. Also returns
    whether each rule is needed; this is checked for every single rule, because alike rules may
    cover members that overlap in different ways. ``ways`` to settle a problem: the quicker and
    weaker first; ``left`` gives the seconds of processor time that are left.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, rule in enumerate(problem.rules):
        if rule.is_required:
            sides = (np.sort(problem.kind[side]).tobytes() for side in (rule.a, rule.b))
            key = (rule.kind, rule.level, rule.most, rule.min_domains, rule.max_skew, *sides)
            alike.setdefault(key, []).append(number)
    families, is_minimal = list(alike.values()), False
    for settle in ways:
        search = _CoreSearch(problem, settle, left)
        if search.is_impossible(families):
            families, is_minimal = search.shrink(families)
    return families, is_minimal


def only(problem: Problem, numbers: Iterable[int]) -> Problem:
    """Return the problem with only these of its rules."""
    return dataclasses.replace(
        problem, rules=[problem.rules[number] for number in numbers], home=NOWHERE
    )


class _CoreSearch:
    def __init__(self, problem: Problem, settle: Settle, left: Callable[[], float]) -> None:
        self._problem, self._settle, self._left = problem, settle, left

    def is_impossible(self, families: Families) -> bool:
        """Return whether it is proven that these cannot be kept together."""
        return self._can_be_kept(families) is False

    def _can_be_kept(self, families: Families) -> bool | None:
        """Return whether these can be kept together; None if it is not known, or the time is
        up."""
        left = self._left()
        if left <= 0:
            return None
        rules = sorted(number for family in families for number in family)
        return self._settle(only(self._problem, rules), min(SETTLE_S, left))

    def shrink(self, families: Families) -> tuple[Families, bool]:
        """Return the rules left when no more can be left out, and whether each is known to be
        needed."""
        families = self._without_spare(families)
        families = self._shortened(families)
        return self._needed(self._trimmed(families))

    def _without_spare(self, families: Families) -> Families:
        """Leave families out by halves, quarters and so on, while there is a proof without
        them."""
        size = max(len(families) // 2, 1)
        while families:
            for start in reversed(range(0, len(families), size)):
                fewer = families[:start] + families[start + size :]
                if self.is_impossible(fewer):
                    families = fewer
            if size == 1:
                break
            size //= 2
        return families

    def _shortened(self, families: Families) -> Families:
        """Return the smallest size that suffices if every family has this size.

        A cell usually has a rule of each family.
        """
        low, high = 1, max(map(len, families), default=1)
        while low < high:
            middle = (low + high) // 2
            if self.is_impossible([family[:middle] for family in families]):
                high = middle
            else:
                low = middle + 1
        return [family[:high] for family in families]

    def _trimmed(self, families: Families) -> Families:
        """Leave out single rules, from the end of each family, until one is needed."""
        for place, family in enumerate(families):
            while len(family) > 1:
                fewer = [*families[:place], family[:-1], *families[place + 1 :]]
                if not self.is_impossible(fewer):
                    break
                families, family = fewer, family[:-1]
        return families

    def _needed(self, families: Families) -> tuple[Families, bool]:
        """Leave out each single rule that is not needed. Return whether each remaining rule is
        needed.

        A rule is needed if the other rules can be kept without it. One pass is enough: a rule that
        is needed in a larger set is needed in a smaller one.
        """
        is_known = True
        for number in [number for family in families for number in family]:
            fewer = [[rule for rule in family if rule != number] for family in families]
            answer = self._can_be_kept(fewer)
            if answer is False:
                families = fewer
            is_known &= answer is not None
        return [family for family in families if family], is_known


def ideal(problem: Problem) -> Problem:
    """Return the problem on empty hosts that take everything.

    It has as many hosts and domains as the group can use. All members are alike there, and none is
    fixed. The required rules can be kept there exactly if they could be kept on the whole cluster
    with no instances on it.
    """
    rules = [dataclasses.replace(rule, outside=None) for rule in problem.rules if rule.is_required]
    hosts = _enough([np.asarray(ids) for ids in problem.domains], max(len(problem.names), 1))
    domains, names = [], []
    for ids, every in zip(problem.domains, problem.domain_names, strict=True):
        numbers, dense = np.unique(ids[hosts], return_inverse=True)
        domains.append(dense.ravel().astype(np.int32))
        names.append([every[number] for number in numbers])
    return Problem.of_policies(problem.names, domains, problem.levels, names, rules)


def _enough(domains: list[np.ndarray], members: int) -> np.ndarray:
    """Rows of hosts: at most ``members`` of the hosts in the same domains, and of alike domains.

    A domain is unnecessary if ``members`` other domains lie in the same domains of all other
    levels and are at least as large: a placement can use these instead.
    """
    hosts = np.arange(len(domains[0]))
    if len(domains) == 1:
        return hosts[:members]
    above = np.column_stack(domains[1:])
    hosts = hosts[_firsts(above, members)]
    for level in range(1, len(domains)):
        hosts = hosts[_in_large(domains, hosts, level, members)]
    return hosts


def _firsts(rows: np.ndarray, most: int) -> np.ndarray:
    """Bool [n]: the first ``most`` rows of each set of equal rows."""
    _, kinds = np.unique(rows, axis=0, return_inverse=True)
    kinds = kinds.ravel()
    order = np.argsort(kinds, kind='stable')
    starts = np.searchsorted(kinds[order], np.arange(kinds.max(initial=-1) + 1))
    rank = np.empty(len(rows), dtype=np.intp)
    rank[order] = np.arange(len(rows)) - starts[kinds[order]]
    return rank < most


def _in_large(domains: list[np.ndarray], hosts: np.ndarray, level: int, most: int) -> np.ndarray:
    """Bool [n]: hosts that remain if each set of alike domains of a level keeps its largest."""
    ids = domains[level][hosts]
    others = [each[hosts] for number, each in enumerate(domains) if number not in (0, level)]
    around = np.column_stack([*others, np.zeros(len(hosts), dtype=np.int64)])
    one_place = _firsts(np.column_stack([ids, around]), 1)
    numbers, places = np.unique(ids[one_place], return_counts=True)
    if (places > 1).any():  # some overlap another level: not compared
        return np.ones(len(hosts), dtype=bool)
    size = np.bincount(ids)[numbers]
    first = np.flatnonzero(one_place)
    order = first[np.argsort(-size[np.searchsorted(numbers, ids[first])], kind='stable')]
    keep = np.zeros(int(ids.max(initial=-1)) + 1, dtype=bool)
    keep[ids[order[_firsts(around[order], most)]]] = True
    return keep[ids]


def imagined(
    definition: Definition, levels: Sequence[str], nests: Nests = frozenset()
) -> Problem | None:
    """Return the group's required policies on that cluster; None if it has no or too many hosts.

    ``levels`` go from narrow to wide; the first is the host. Each level that the policies name is
    an axis with a value for each member. A domain has a value on the axis of its level and on the
    axes of the levels around it; a host has one on all axes.
    """
    rules = [policy for policy in definition.policies if policy.is_required]
    host, *wider = levels
    levels = [host, *(name for name in wider if any(rule.level == name for rule in rules))]
    members = list(definition.members)
    if not 0 < len(members) ** len(levels) <= MAX_HOSTS:
        return None
    hosts = np.array(
        list(itertools.product(range(len(members)), repeat=len(levels))), dtype=np.int64
    )
    domains = []
    for name in levels:
        around = [
            axis
            for axis, other in enumerate(levels)
            if other == name or name == host or (name, other) in nests
        ]
        _, ids = np.unique(hosts[:, around], axis=0, return_inverse=True)
        domains.append(ids.ravel().astype(np.int32))
    index = {path: number for number, path in enumerate(members)}
    return Problem.of_policies(
        members,
        domains,
        levels,
        [[f'{name} {number}' for number in range(ids.max() + 1)]
         for name, ids in zip(levels, domains, strict=True)],
        [Rule.of(policy, index, levels) for policy in rules],
    )  # fmt: skip
