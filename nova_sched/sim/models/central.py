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
"""The same servers on the same nodes, placed by the central scheduler."""

import random
import types
from typing import Any

from nova_sched import errors
from nova_sched.rpc import translate
from nova_sched.sim.models import meter
from nova_sched.sim.models.cloud import CALL_S, Cloud, build_seconds
from nova_sched.sim.models.load import Ask
from nova_sched.sim.models.tally import Tally


class Central:
    """A conductor asks the engine for a host for each server; the chosen node or an alternate
    builds it."""

    def __init__(self, cloud: Cloud, tally: Tally):
        self._cloud, self._tally = cloud, tally
        self._chance = random.Random(f'{cloud.plan.seed} builds')

    def ask(self, ask: Ask) -> None:
        tally, cloud = self._tally, self._cloud
        tally.asked += 1
        tally.calls['select_destinations'] += 1
        try:
            with tally.meter.of(meter.SCHEDULER):
                requests = translate.requests(ask.spec(), [ask.uuid])
                (found,) = cloud.engine.place(requests, alternates=True)
        except errors.NoValidHost as refusal:
            tally.refuse(refusal.reason)
            cloud.note_refusal(tally)
            return
        tally.waits_s.append(CALL_S)
        self._build(ask, requests[0], [(one.host, one.nodename) for one in found], CALL_S)

    def _build(self, ask: Ask, request: Any, places: list, after_s: float) -> None:
        """Builds the server on the first of the places; the others are alternates."""
        self._tally.casts += 1
        node_api = self._cloud.node_apis[places[0][0]]
        node_api.begin(request)
        seconds = build_seconds(self._chance, self._cloud.build_s)
        self._cloud.after(after_s + seconds, lambda: self._built(ask, request, places))

    def _built(self, ask: Ask, request: Any, places: list) -> None:
        tally, cloud, (host, _) = self._tally, self._cloud, places[0]
        node_api = cloud.node_apis[host]
        try:
            cloud.drivers[host].create(types.SimpleNamespace(instance_uuid=ask.uuid), None)
        except errors.BuildFailed:
            tally.failed_builds += 1
            node_api.undo(ask.uuid, failed=True)
            cloud.report(node_api, tally)
            self._elsewhere(ask, request, places)
            return
        node_api.keep(ask.uuid)
        cloud.report(node_api, tally)
        cloud.note_server(tally, ask, host)
        if ask.lifetime_s is not None:
            cloud.after(ask.lifetime_s, lambda: self._leave(ask.uuid, node_api))

    def _elsewhere(self, ask: Ask, request: Any, places: list) -> None:
        tally, cloud, failed = self._tally, self._cloud, places[0][0]
        claim = cloud.engine.claim_service.claim
        for number, (host, nodename) in enumerate(places[1:], 1):
            tally.calls['claim_alternate'] += 1
            try:
                cloud.engine.call(claim, request, host, nodename, None, failed)
            except errors.ComputeResourcesUnavailable:
                continue
            self._build(ask, request, places[number:], CALL_S)
            return
        tally.calls['abort_claim'] += 1
        cloud.engine.call(cloud.engine.claim_service.abort_claim, ask.uuid)
        tally.failed += 1

    def _leave(self, uuid: str, node_api: Any) -> None:
        self._tally.casts += 1

        def gone() -> None:
            node_api.destroy(uuid)
            self._cloud.report(node_api, self._tally)
            self._tally.left += 1

        self._cloud.after(build_seconds(self._chance, self._cloud.build_s), gone)
