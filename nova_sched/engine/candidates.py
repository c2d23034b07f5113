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
"""Candidates: hosts that are offered for an instance, stored for some time, and claimed by UUID
later."""

import dataclasses
import threading
import uuid

from nova_sched import errors


@dataclasses.dataclass(frozen=True, slots=True)
class OfferedHost:
    """A host that is offered for an instance; ``rank`` 1 is the best.

    ``expires_s`` is in seconds since the epoch. From then on the candidate cannot be claimed.
    """

    uuid: str
    instance_uuid: str
    node_uuid: str
    host: str
    nodename: str
    rank: int
    expires_s: float


class MemoryCandidates:
    """Candidates that are kept in this process only."""

    def __init__(self):
        self._lock = threading.Lock()
        self._kept: dict[str, dict] = {}

    def write(self, spec, expires_s, candidates):
        """Keep the candidates of one request: mappings with ``uuid`` and any other fields."""
        with self._lock:
            self._kept.update(
                {
                    candidate['uuid']: {**candidate, 'spec': spec, 'expires_s': expires_s}
                    for candidate in candidates
                }
            )

    def read(self, candidate_uuid):
        """A candidate as it was written, with ``spec`` and ``expires_s``; None if it is not
        kept."""
        with self._lock:
            candidate = self._kept.get(candidate_uuid)
            return None if candidate is None else dict(candidate)

    def forget(self, before_s):
        """Drop the candidates that expired before that time."""
        with self._lock:
            self._kept = {
                key: candidate
                for key, candidate in self._kept.items()
                if candidate['expires_s'] >= before_s
            }


class HostOffers:
    """Offers hosts, and claims an offered host later. Any scheduler can claim it.

    ``place`` chooses hosts. ``persist`` runs work on the store, and waits while the database is
    down. An offer claims nothing: an offered host may be full when it is claimed. ``offer`` and
    ``find`` may be called from any thread, ``claim`` in the loop only.
    """

    def __init__(self, context, place, persist, state_sync, claim_service):
        self._settings, self._clock = context.settings, context.clock
        self._place, self._persist = place, persist
        self._state_sync, self._claim_service = state_sync, claim_service
        self._store = MemoryCandidates() if context.candidates is None else context.candidates

    def offer(self, requests, spec, count=None, context=None, convert=lambda candidate: candidate):
        """For each request up to ``count`` OfferedHosts, best first; None, or too many: as many as
        allowed.

        Each request is ranked as if the earlier requests had taken their best hosts. ``spec`` is
        text that is stored for the later claim. ``convert`` converts an OfferedHost to the value
        that is returned; if it raises, nothing is stored. Raises NoValidHost.
        """
        most = self._settings().candidates_max
        placed = self._place(
            requests, claim=False, context=context, ranked=min(count or most, most)
        )
        return self._persist(self._keep, requests, placed, spec, convert)

    def _keep(self, requests, placed, spec, convert):
        """UUIDs are new each time: a failed attempt may have left its own UUIDs in the
        database."""
        expires_s = self._clock() + self._settings().candidates_ttl_s
        offered = [
            [
                OfferedHost(
                    uuid=str(uuid.uuid4()),
                    instance_uuid=request.instance_uuid,
                    node_uuid=host.node_uuid,
                    host=host.host,
                    nodename=host.nodename,
                    rank=rank,
                    expires_s=expires_s,
                )
                for rank, host in enumerate(hosts, start=1)
            ]
            for request, hosts in zip(requests, placed, strict=True)
        ]
        answer = [[convert(candidate) for candidate in candidates] for candidates in offered]
        rows = [
            dataclasses.asdict(candidate) for candidates in offered for candidate in candidates
        ]
        for row in rows:
            del row['expires_s']
        self._store.write(spec, expires_s, rows)
        return answer

    def find(self, candidate_uuid):
        """An OfferedHost, and the text that was stored with it. Raises CandidateNotFound."""
        row = self._persist(self._store.read, candidate_uuid)
        if row is None or row['expires_s'] <= self._clock():
            raise errors.CandidateNotFound(candidate_uuid)
        spec = row.pop('spec')
        return OfferedHost(**row), spec

    def claim(self, candidate, request, request_id=None):
        """Claim a candidate. Repeated claims of the same candidate are one claim.

        Raises NodeNotFound, or ComputeResourcesUnavailable with the shortages; nothing has changed
        then.
        """
        try:
            return self._claim(candidate, request, request_id)
        except (errors.NodeNotFound, errors.ComputeResourcesUnavailable):
            # Another scheduler may have offered it, and may have a newer state of the node.
            self._state_sync.catch_up([candidate.node_uuid], {})
            return self._claim(candidate, request, request_id)

    def _claim(self, candidate, request, request_id):
        """The node is found by its UUID: the same name may be another machine by now."""
        host, nodename = self._state_sync.names([candidate.node_uuid])[candidate.node_uuid]
        if not host:
            raise errors.NodeNotFound(f'{candidate.nodename} on host {candidate.host}')
        return self._claim_service.claim(request, host, nodename, request_id)

    def forget(self):
        """Drop the candidates that have expired. Raises StoreUnavailable."""
        self._store.forget(self._clock())
