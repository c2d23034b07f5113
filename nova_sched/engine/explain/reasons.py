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
"""Why a request found no host: the filters run again, and each one gives its reason."""

import itertools
import logging
from typing import NamedTuple

import numpy as np

from nova_sched import errors
from nova_sched.engine.decide import CandidateSet, Step, ask, chain, narrow
from nova_sched.filters.reasons import listed
from nova_sched.filters.understood import Understood

LOG = logging.getLogger(__name__)

MAX_REASON = 1000  # characters of a reason
MAX_NAMED = 10  # removed hosts that are named for each filter


class Judged(NamedTuple):
    """The effect of one filter: how many hosts it saw and left, and why it removed the other
    hosts.

    ``why`` names no host. The other fields are for operators: ``removed`` are some of the removed
    hosts by name, ``nearest`` is the host that came closest to passing, and ``nearest_why`` is the
    reason why it did not pass.
    """

    name: str
    seen: int
    left: int
    why: str = ''
    removed: tuple[str, ...] = ()
    nearest: str | None = None
    nearest_why: str = ''

    @property
    def gone(self):
        return self.seen - self.left

    def to_dict(self):
        return {
            'filter': self.name,
            'seen': self.seen,
            'left': self.left,
            'why': self.why,
            'removed': list(self.removed),
            'nearest': self.nearest,
            'nearest_why': self.nearest_why,
        }


class Watched(CandidateSet):
    """A candidate set that records which rows each step removed."""

    def __init__(self, size):
        super().__init__(size)
        self.gone = []

    def keep(self, name, verdict, rows=None):
        before = self.rows()
        super().keep(name, verdict, rows)
        self.gone.append(before[:0] if self.alive is None else before[~self.alive[before]])


def replay(rules, hosts, request):
    """Run the filters again, in order, up to the one that leaves no host. Returns a list of
    Judged."""
    candidates = Watched(len(hosts))
    narrow(candidates, hosts, request)
    judged = [
        _judged(step, hosts, rows, narrowed(step.name, hosts, request) if len(rows) else '')
        for step, rows in zip(candidates.steps, candidates.gone, strict=True)
    ]
    for rule in chain(rules, request):
        if not candidates.left:
            break
        ask(rule, candidates, hosts, request)
        judged.append(told_by(rule, candidates.steps[-1], hosts, request, candidates.gone[-1]))
    return judged


def told_by(rule, step, hosts, request, rows):
    """The Judged of a filter's step that removed these rows, with the filter's own reason."""
    if not len(rows):
        return Judged(*step)
    nearest = _said(rule.nearest, None, hosts, request, rows)
    judged = _judged(step, hosts, rows, said(rule, hosts, request, rows))
    if nearest is None:
        return judged
    why = said(rule, hosts, request, np.array([nearest]))
    return judged._replace(nearest=hosts.nodes[nearest].host, nearest_why=why)


def said(rule, hosts, request, rows):
    """The rule's reason. It is empty if the rule fails to give one: the refusal is still
    answered."""
    return _said(rule.why, '', hosts, request, rows)


def _said(method, default, hosts, request, rows):
    try:
        return method(hosts, request, rows)
    except Exception:
        LOG.exception('A rule cannot say why it refused')
        return default


def _judged(step, hosts, rows, why):
    names = tuple(hosts.nodes[row].host for row in rows[:MAX_NAMED].tolist())
    return Judged(step.name, step.seen, step.left, why if len(rows) else '', names)


def narrowed(name, hosts, request):
    """The reason for a step of ``narrow``: how the hosts differ from the hosts that the caller
    allows."""
    if name == 'top_group':
        return 'the policies of its group do not allow the member there'
    if name == 'ignore_hosts':
        return 'the request leaves them out'
    if name == 'unheard_hosts':
        return 'they have yet to report whether they still have the instance'
    if name == 'requested_cell':
        return 'another cell is asked for'
    if name == 'allocation_candidates':
        return 'Placement has no allocation candidate there'
    if name == 'force_hosts':
        known = {host for host in request.force_hosts if hosts.spellings.get(host)}
        return _named('host', request.force_hosts, known)
    if name == 'force_nodes':
        return _named('node', request.force_nodes, {node.nodename for node in hosts.nodes})
    wanted = request.destination
    if wanted.node is None:
        return _named('host', {wanted.host}, hosts.rows_of_host.keys())
    rows = hosts.rows_of_host.get(wanted.host, ()) if wanted.host else range(len(hosts))
    of_host = f' of host {wanted.host}' if wanted.host else ''
    return _named('node', {wanted.node}, {hosts.nodes[row].nodename for row in rows}, of_host)


def _named(word, wanted, known, of_host=''):
    """Which names the request gives, and which of these are unknown. The caller gave them, so they
    tell it nothing new."""
    unknown = wanted - known
    text = f'the request names {word}{"s" if len(wanted) > 1 else ""} {listed(wanted)}{of_host}'
    if not unknown:
        return text
    if len(wanted) == 1:
        return f'{text}, which is not known'
    if len(unknown) == len(wanted):
        return f'{text}, none of which is known'
    return f'{text}; {listed(unknown)} {"is" if len(unknown) == 1 else "are"} not known'


# Texts.


def reason(judged, size, with_hosts=0, instances=1, left_out=0):
    """Why none of ``size`` hosts was left: counts and causes, no host names.

    ``with_hosts`` of the ``instances`` had a host by then. ``left_out`` is the number of hosts
    that cannot be used, and are not in ``size``.
    """
    text = _reason(judged, size, with_hosts, instances)
    more = ''
    if left_out:
        more = (
            f' {left_out} more {"is" if left_out == 1 else "are"} left out: '
            'nova-sched-manage cloud status has the reasons.'
        )
    most = MAX_REASON - len(more)
    return (text if len(text) <= most else f'{text[: most - 1]}…') + more


def _reason(judged, size, with_hosts, instances):
    removed = [step for step in judged if step.gone]
    if removed and removed[-1].name == Understood.__name__:
        return f'{removed[-1].why[:1].upper()}{removed[-1].why[1:]}.'
    start = errors.NOT_ENOUGH + (
        f' {with_hosts} of {instances} instances found a host.' if instances > 1 else ''
    )
    if not size:
        return f'{start} No compute node has reported yet.'
    if judged and judged[-1].left:
        # Filters that run once, or use their earlier verdicts, removed the other hosts earlier.
        return (
            f'{start} Of {size} hosts, the last ones did not pass '
            'for an earlier instance of the request.'
        )
    *earlier, last = removed
    text = f'{start} Of {size} hosts, {last.name} removed the last {last.gone}{_colon(last)}.'
    if earlier:
        before = '. '.join(f'{step.name} removed {step.gone}{_colon(step)}' for step in earlier)
        text += f' Before that, {before}.'
    return text


def for_tenants(text, judged, rules, request):
    """The ``reason`` without amounts, numbers and names of the cloud: which rule removed the last
    hosts, or which names the request itself gives."""
    last = judged[-1] if judged else None
    if last is None or last.left or not last.gone:  # an earlier instance, or no host at all
        return errors.NOT_ENOUGH
    if last.name == Understood.__name__:
        return text  # it repeats the request
    words = {rule.name: rule.for_tenants for rule in (*rules.always, *rules.filters)}
    # Nova itself names the host of a server that is rebuilt.
    why = words.get(last.name, '' if request.is_rebuild else last.why)
    return f'{errors.NOT_ENOUGH} {last.name} removed the last hosts{f": {why}" if why else ""}.'


def _colon(step):
    return f': {step.why}' if step.why else ''


def in_short(details):
    """Return the details of a refusal as a short text for the log."""
    if not details['filters']:
        return 'none after -'
    last, instances = details['filters'][-1], details['instances']
    prefix = f'{details["found"]} of {instances} instances, then ' if instances > 1 else ''
    return f'{prefix}none after {last["filter"]}' + (f': {last["why"]}' if last['why'] else '')


def refusal(candidates, rules, hosts, request, with_hosts=0, instances=1):
    """The NoValidHost for a request that left no host in ``candidates``, with all known causes.

    Its ``details`` are those of ``_details``.
    """
    try:
        judged = replay(rules, hosts, request)
    except Exception:
        LOG.exception('A refusal cannot be explained')
        judged = [Judged(*step) for step in candidates.steps]
    text = reason(judged, len(hosts), with_hosts, instances, hosts.left_out)
    steps = tuple(Step(step.name, step.seen, step.left) for step in judged)
    details = _details(text, len(hosts), instances, with_hosts, judged)
    return errors.NoValidHost(text, steps, details, for_tenants(text, judged, rules, request))


def _details(reason, hosts, instances, with_hosts, judged, placed=()):
    """The result of a request, as plain values.

    ``reason`` is None for a request that found its hosts. ``hosts`` is the number of all hosts,
    ``instances`` the number of requested instances, ``with_hosts`` how many of these had a host.
    ``filters`` has the effect of each filter (see Judged). ``placed`` has the chosen host of each
    instance with its alternates and their weights (see ``winners``).
    """
    return {
        'reason': reason,
        'hosts': hosts,
        'instances': instances,
        'found': with_hosts,
        'filters': [step.to_dict() for step in judged],
        'placed': list(placed),
    }


def bare(reason, hosts, instances):
    """The details of a refusal that no filter has made."""
    return _details(reason, hosts, instances, 0, ())


def conflict(decision, reason):
    """The details of a decision whose hosts other requests claimed first, each time."""
    judged = [Judged(*step) for step in decision.first]
    return _details(reason, judged[0].seen if judged else 0, decision.asked, 0, judged)


def placement(decision, answer, judged=None):
    """The details of a recorded decision, with its answer. ``judged`` is the result of a replay,
    if there was one."""
    judged = [Judged(*step) for step in decision.first] if judged is None else judged
    placed = []
    for request, chosen, weighed in itertools.zip_longest(
        decision.requests, answer, [winner.told() for winner in decision.winners]
    ):
        first, *rest = (
            {'host': host.host, 'node': host.nodename, **(weights or {})}
            for host, weights in itertools.zip_longest(chosen, weighed or ())
        )
        placed.append({'instance_uuid': request.instance_uuid, **first, 'alternates': rest})
    return _details(
        None, judged[0].seen if judged else 0, decision.asked, len(placed), judged, placed
    )
