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
"""What the scheduler of the cloud did with a request, as Placement and Nova show it later, and the
comparison of the shadow's decision with it."""

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from nova_sched.engine.explain.standings import Standings

PLACED, REFUSED, UNKNOWN = 'placed', 'refused', 'unknown'
FAILED = 'error'  # the vm_state of a server whose builds have failed

# Outcomes of a comparison, in order: that of a call is the last of its servers'.
SAME, BOTH_REFUSED = 'same', 'both_refused'
AMONG_BEST = 'among_best'  # another host, which no host of the shadow's beats
NOT_KNOWN = 'not_known'  # what the cloud did
PASSED = 'passed'  # another host, which all filters of the shadow pass
CLOUD_REFUSED = 'cloud_refused'
FILTERED = 'filtered'  # a host that a filter of the shadow removes
LEFT_OUT = 'left_out'  # a host that the shadow does not know, or leaves out
SHADOW_REFUSED = 'shadow_refused'
OUTCOMES = (
    SAME,
    BOTH_REFUSED,
    AMONG_BEST,
    NOT_KNOWN,
    PASSED,
    CLOUD_REFUSED,
    FILTERED,
    LEFT_OUT,
    SHADOW_REFUSED,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """PLACED on a node; REFUSED; or UNKNOWN. ``host`` is None if the mirror does not know it."""

    outcome: str
    node_uuid: str | None = None
    host: str | None = None


class Choices:
    """Finds the choices of the cloud's scheduler. It only reads; raises a SchedError if Nova or
    Placement does not answer."""

    def __init__(self, cells, placement, mirror):
        self._cells, self._placement, self._mirror = cells, placement, mirror

    def find(self, instance_uuid, ignored=frozenset()):
        """Return the Choice for an instance, or None while Nova still waits for one.

        ``ignored`` are the hosts that the request leaves out: what a server that moves has there
        is older than the choice.
        """
        # Before the allocations: a call that has ended by then has written its allocations.
        is_waiting = self._mirror.waits_for_host([instance_uuid])
        providers = self._placement.allocations_of(instance_uuid).providers
        nodes = dict.fromkeys(
            uuid if self._mirror.host_of(uuid) is not None else self._placement.root_of(uuid)
            for uuid in providers
        )
        for node_uuid in nodes:
            if node_uuid is None:
                continue
            host = self._mirror.host_of(node_uuid)
            if host not in ignored:
                return Choice(PLACED, node_uuid, host)
        if is_waiting:
            return None
        # Nova makes the server in its cell once a host is chosen; a server that moves was there
        # before.
        rows = (cell.instance(instance_uuid) for cell in self._cells)
        row = next((row for row in rows if row is not None), None)
        if row is None or row.host in ignored:
            return Choice(REFUSED)
        if row.host is not None:  # its allocations have gone since, for example with the server
            return Choice(PLACED, None, row.host)
        return Choice(UNKNOWN if row.deleted or row.vm_state == FAILED else REFUSED)


@dataclasses.dataclass(frozen=True, slots=True)
class ShadowDecision:
    """What the shadow decided for a call, and how all hosts stood then (None: not known).

    ``chosen`` has (node UUID, host) for each instance; it is empty for a refusal, and ``reason``
    is its text. ``took_s`` runs from the arrival of the copy, ``time_s`` is that moment since the
    epoch. ``best`` is how many of the best hosts the scheduler chooses from. ``unreadable`` are
    the parts of the cloud that could not be read. ``is_check``: the request takes no resources,
    and what the cloud answered leaves no trace.
    """

    request_id: str | None
    project_id: str | None
    flavor: str | None
    instances: tuple[str, ...]
    ignored: frozenset[str]
    is_check: bool
    time_s: float
    took_s: float
    chosen: tuple[tuple[str, str], ...] = ()
    reason: str | None = None
    standings: Standings | None = None
    best: int = 1
    unreadable: tuple[str, ...] = ()


def compared(decision: ShadowDecision, choices: Mapping[str, Choice], left_out: Mapping[str, str]):
    """The comparison of a call, as plain values.

    ``choices`` are by instance, ``left_out`` says by host why the mirror leaves it out.
    """
    servers = [
        {'instance_uuid': uuid, **_server(decision, own, choices.get(uuid), left_out)}
        for uuid, own in zip(decision.instances, _paired(decision, choices), strict=True)
    ]
    return {
        'time': moment(decision.time_s),
        'request_id': decision.request_id,
        'project_id': decision.project_id,
        'flavor': decision.flavor,
        'outcome': max((server['outcome'] for server in servers), key=OUTCOMES.index),
        'took_ms': round(decision.took_s * 1000, 3),
        'reason': decision.reason,
        'servers': servers,
        **({'unreadable': list(decision.unreadable)} if decision.unreadable else {}),
    }


def moment(seconds):
    """Seconds since the epoch as ISO 8601 in UTC, with milliseconds."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return at.isoformat(timespec='milliseconds')


def _paired(decision, choices) -> Sequence[tuple[str, str] | None]:
    """The shadow's (node, host) for each instance. The servers of a call are alike, so that their
    order does not matter: those on the same hosts are compared with each other."""
    if not decision.chosen:
        return [None] * len(decision.instances)
    left, pairs = collections.Counter(decision.chosen), {}
    for uuid in decision.instances:
        choice = choices.get(uuid)
        same = next((place for place in left if choice and _is_same(place, choice)), None)
        if same is not None:
            pairs[uuid] = same
            left -= collections.Counter([same])
    rest = left.elements()
    return [pairs.get(uuid) or next(rest) for uuid in decision.instances]


def _is_same(own, choice):
    node, host = own
    return choice.node_uuid == node if choice.node_uuid else choice.host == host


def _server(decision, own, choice, left_out):
    """The comparison for one instance."""
    choice = choice or Choice(UNKNOWN)
    hosts = {'shadow': own and own[1], 'cloud': choice.host or choice.node_uuid}
    if choice.outcome == UNKNOWN:
        return {**hosts, 'outcome': NOT_KNOWN}
    if choice.outcome == REFUSED:
        return {**hosts, 'outcome': CLOUD_REFUSED if own else BOTH_REFUSED}
    if own and _is_same(own, choice):
        return {**hosts, 'outcome': SAME}
    outcome, why = _difference(decision, own, choice, left_out)
    return {**hosts, 'outcome': outcome if own else SHADOW_REFUSED, **why}


def _difference(decision, own, choice, left_out):
    """How the cloud's host stood, and what made the difference: a filter or a weigher."""
    if decision.standings is None or choice.node_uuid is None:
        return NOT_KNOWN, {}
    standing = decision.standings.of(choice.node_uuid)
    if standing is None or (standing.filter and choice.host in left_out):
        return LEFT_OUT, {'why': left_out.get(choice.host, 'its node was not known')}
    if standing.filter is not None:
        return FILTERED, {'filter': standing.filter}
    ranked = {'rank': standing.rank, 'of': standing.of}
    decisive = own and decision.standings.decisive(own[0], choice.node_uuid)
    if decisive:
        ranked |= {'weigher': decisive[0], 'lead': round(decisive[1], 6)}
    return (AMONG_BEST if standing.rank <= decision.best else PASSED), ranked
