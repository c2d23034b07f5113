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
"""Queries of operators. The answers leave no claims and no records."""

import logging

import numpy as np

from nova_sched import errors
from nova_sched.engine.answer import selections
from nova_sched.engine.calls import pausable
from nova_sched.engine.decide import (
    CandidateSet,
    Note,
    WinnerWeights,
    chain,
    narrow,
    survivors,
    weigh,
)
from nova_sched.engine.explain import capacity, reasons, standings
from nova_sched.engine.explain.decision_log import PLACED, REFUSED

LOG = logging.getLogger(__name__)

PASSES, REFUSES, SKIPPED, FAILS = 'passes', 'refuses', 'not asked', 'fails'


class Questions:
    """Answers queries from the placer and the host state. Its methods run in the loop; answers are
    plain values."""

    def __init__(self, context, placer):
        self._cluster, self._placer = context.cluster, placer
        self._settings, self._clock = context.settings, context.clock

    @property
    def _hosts(self):
        hosts = self._cluster.hosts
        hosts.now_s = self._clock()
        return hosts

    def health(self):
        """The number of compute ``nodes``, and how many of them are ``heard``: they have reported
        within service_down_time."""
        hosts, down_s = self._hosts, self._settings().service_down_time_s
        heard = np.count_nonzero(hosts.now_s - hosts.seen_s <= down_s)
        return {'nodes': len(self._cluster.snapshot()), 'heard': int(heard)}

    @pausable
    def dry_run(self, requests):
        """The result of a request for these instances, without claims.

        ``outcome`` is `placed` or `refused`; the rest is as in the record of a decision, where
        each filter has a reason even if it left enough hosts.
        """
        hosts, settings = self._hosts, self._settings()
        with self._placer.asking(requests):
            judged = reasons.replay(self._placer.rules, hosts, self._placer.grouped(requests[0]))
            try:
                decision = self._placer.decide(requests, settings, True, noted=True)
            except errors.NoValidHost as error:
                return {'outcome': REFUSED, **error.details}
            try:
                answer = selections(self._placer, decision, settings, True)
                return {'outcome': PLACED, **reasons.placement(decision, answer, judged)}
            finally:
                self._placer.undo(decision)

    @pausable
    def why_not(self, request, host):
        """The verdict of each rule on one host, independent of the rules before it. Raises
        NotFound. A host that is left out may have no nodes; its service has the reason.

        ``host``; ``service`` (disabled, disabled_reason, forced_down, seen_s); ``nodes``: for each
        node of the host ``node``, ``passes``, and ``rules`` with ``rule``, ``verdict`` (`passes`,
        `refuses`, `not asked` or, where the rule raises, `fails`) and ``why``. For a node that
        passes also ``rank`` among the ``of`` nodes that pass, ``weight`` and ``weights``, and the
        same of the ``best`` one.
        """
        hosts = self._hosts
        rows, service = hosts.rows_of_host.get(host, ()), self._cluster.service(host)
        if not rows and not service.is_left_out:
            raise errors.NotFound(f'Host {host}')
        with self._placer.asking([request]):
            request = self._placer.grouped(request)
            nodes = [self._node(hosts, request, row) for row in rows]
        return {
            'host': host,
            'service': {name: getattr(service, name) for name in service.__slots__},
            'nodes': nodes,
        }

    def _node(self, hosts, request, row):
        rules = self._placer.rules
        narrowing = _Verdicts(len(hosts), row)
        narrow(narrowing, hosts, request)
        verdicts = [
            _told(name, PASSES)
            if passes
            else _told(name, REFUSES, reasons.narrowed(name, hosts, request))
            for name, passes in narrowing.told
        ]
        chained = chain(rules, request)
        verdicts += [
            _verdict(rule, hosts, request, row) if rule in chained else _told(rule.name, SKIPPED)
            for rule in (*rules.always, *rules.filters)
        ]
        passes = all(verdict['verdict'] in (PASSES, SKIPPED) for verdict in verdicts)
        answer = {'node': hosts.nodes[row].nodename, 'passes': passes, 'rules': verdicts}
        return answer | (self._rank(hosts, request, row) if passes else {})

    def _rank(self, hosts, request, row):
        """The rank and the weights of a row among all rows that pass."""
        rules = self._placer.rules
        rows, notes = survivors(rules, hosts, request).rows(), list[Note]()
        weights = weigh(rules.weighers, hosts, rows, request, notes)
        place, best = int(np.searchsorted(rows, row)), int(weights.argmax())
        own, other = WinnerWeights.of_notes(notes, [place, best]).told()
        rank = 1 + int(np.count_nonzero(weights > weights[place]))
        best_host = {
            'host': hosts.nodes[rows[best]].host,
            'node': hosts.nodes[rows[best]].nodename,
        }
        return {'rank': rank, 'of': len(rows), **own, 'best': best_host | other}

    @pausable
    def passing(self, request, names, node_uuids):
        """UUIDs of those nodes that pass the rules of these names, whatever other rules say of
        them."""
        hosts = self._hosts
        nodes = [node for uuid in node_uuids if (node := self._cluster.node(uuid)) is not None]
        rows = np.array([node.row for node in nodes], dtype=np.intp)
        passes = np.ones(len(rows), dtype=bool)
        with self._placer.asking([request]):
            for rule in self._placer.rules.always:
                if rule.name in names and len(rows):
                    passes &= rule.judge(hosts, request, rows)
        return [node.uuid for node, is_left in zip(nodes, passes, strict=True) if is_left]

    @pausable
    def ranking(self, request, offered):
        """Which of the offered hosts pass all rules, best first: a list of host names.

        ``offered`` maps (host, name of its node or None) to a weight, which orders those that the
        weighers find equal. A host that is not known does not pass.
        """
        hosts, rules = self._hosts, self._placer.rules
        with self._placer.asking([request]):
            request = self._placer.grouped(request)
            rows = survivors(rules, hosts, request).rows()
            nodes = [hosts.nodes[row] for row in rows.tolist()]
            given = [
                offered.get((node.host, node.nodename), offered.get((node.host, None)))
                for node in nodes
            ]
            places = [place for place, weight in enumerate(given) if weight is not None]
            weights = weigh(rules.weighers, hosts, rows[places], request)
        sent = np.array([given[place] for place in places])
        best = np.lexsort((-sent, -weights)).tolist()
        return list(dict.fromkeys(nodes[places[index]].host for index in best))

    @pausable
    def standings(self, request):
        """How each node stands for a request: standings.Standings."""
        hosts = self._hosts
        with self._placer.asking([request]):
            return standings.taken(self._placer.rules, hosts, self._placer.grouped(request))

    @pausable
    def room(self, request):
        """How many more instances fit, by free amounts: the first part of an answer to
        ``capacity``."""
        request, zone = self._placer.grouped(request), self._settings().default_zone
        return capacity.room(self._placer.rules, self._hosts, request, zone)

    def try_some(self, room):
        """Make some trial claims. Returns whether no more are to be made."""
        return capacity.try_some(room, self._cluster)


class _Verdicts(CandidateSet):
    """Records the verdict of each step on one row."""

    def __init__(self, size, row):
        super().__init__(size)
        self.row, self.told = row, []

    def keep(self, name, verdict, rows=None):
        self.told.append((name, verdict is True or bool(verdict[self.row])))


def _verdict(rule, hosts, request, row):
    rows = np.array([row])
    try:
        verdict = rule.judge(hosts, request, rows)
    except errors.SchedError as error:  # the rule finds the request invalid
        return _told(rule.name, FAILS, str(error))
    except Exception as error:  # a plug-in: the log line and the answer name it
        LOG.exception('%s fails on a host', rule.name)
        return _told(rule.name, FAILS, str(error) or type(error).__name__)
    if verdict is True or bool(verdict[0]):
        return _told(rule.name, PASSES)
    return _told(rule.name, REFUSES, reasons.said(rule, hosts, request, rows))


def _told(name, verdict, why=''):
    return {'rule': name, 'verdict': verdict, 'why': why}
