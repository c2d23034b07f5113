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
"""Sends jobs: to the queue of a flavor, to a node's own, or along a list of chosen hosts."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from nova_sched import errors
from nova_sched.objects.job import FAILED, QueueJob, QueueResult
from nova_sched.queues import wire
from nova_sched.queues.broker import FALLBACK, Broker, of_flavor, of_host

LOG = logging.getLogger(__name__)

Place = tuple[str, str]  # host and nodename
NO_ROOM = (errors.ComputeResourcesUnavailable, errors.NodeNotFound)
# What a job needs does not answer now: it may be tried again.
AWAY = (errors.StoreUnavailable, errors.StoreFull, errors.BrokerUnavailable, errors.NoAnswer)


def place_of(selection: Any) -> Place:
    return selection.service_host, selection.nodename


class Sender:
    """Every method raises BrokerUnavailable: then the job is sent or not, and may be sent
    again."""

    def __init__(self, broker: Broker, claims: Any):
        self._broker, self._claims = broker, claims

    def to_flavor(self, job: QueueJob) -> None:
        """To the queue that the job names; if there is none any more, the scheduler shall
        decide."""
        body = wire.to_bytes(job)
        if not self._broker.publish(of_flavor(job.queue), body):
            self._broker.publish(FALLBACK, body)

    def to_fallback(self, job: QueueJob) -> None:
        self._broker.publish(FALLBACK, wire.to_bytes(job))

    def to_host(self, job: QueueJob, host: str) -> None:
        """To a node's own queue, where it waits for the node as long as that takes."""
        queue, body = of_host(host), wire.to_bytes(job)
        if not self._broker.publish(queue, body):
            self._broker.declare([queue])
            self._broker.publish(queue, body)

    def to_node(self, job: QueueJob, host: str) -> bool:
        """To a node's own queue, for a while: then it is the scheduler's again. Whether there is
        one."""
        return self._broker.publish(of_host(host), wire.to_bytes(job), expires=True)

    def has_worker(self, host: str) -> bool:
        """Whether a worker is subscribed to a node's own queue, busy or not."""
        facts = self._broker.facts(of_host(host))
        return facts is not None and facts.consumers > 0

    def to_first(self, job: Any, places: Sequence[Place], context: Any = None) -> Place | None:
        """A claimed job to the first of these places, where its claim is, or else to the next that
        has a worker, with its claim. None if there is none; then ``tried`` of the job names all of
        them, and the claim may be on one.

        What waits there is the scheduler's again after a while. Raises NoAnswer or
        StoreUnavailable, too.
        """
        job.claimed, at = True, places[0][0]
        for number, (host, nodename) in enumerate(places):
            if number and not self._move_claim(job, at, (host, nodename), context):
                continue
            at = host
            job.alternates = json.dumps(places[number + 1 :])
            if self.to_node(job, host):
                return host, nodename
            LOG.warning('Job %s: host %s was chosen and has no worker', job.uuid, host)
            job.tried = [*job.tried, host]
        return None

    def _move_claim(self, job: QueueJob, failed_host: str, place: Place, context: Any) -> bool:
        try:
            self._claims.claim_alternate(
                job.spec, job.instance_uuid, failed_host, *place, context=context
            )
        except NO_ROOM as short:
            LOG.info('Job %s is not for host %s: %s', job.uuid, place[0], short)
            return False
        return True

    def answer(self, result: QueueResult) -> None:
        """Tell whoever waits for the job; it is no matter if nobody does any more."""
        if result.job.reply_to:
            self._broker.publish(result.job.reply_to, wire.to_bytes(result))

    def deny(self, job: QueueJob, why: str) -> None:
        """Tell the same that it has failed."""
        where = {'host': None, 'nodename': None, 'claim': None}
        self.answer(QueueResult(job=job, outcome=FAILED, tries=len(job.tried), why=why, **where))
