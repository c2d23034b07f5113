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
"""Whether consumers that are to be new are somewhere after all: asked behind their claims.

Two must not both happen: a pending claim becomes confirmed on one node, and the same consumer is claimed for
as a new one on another. No row stands for a consumer that both could lock, and who has read that it has no
claim may be wrong a moment later. Where both do meet is the index of the column ``unconfirmed``: each claim
that is not confirmed has its consumer there, and no two have the same.

So the new claim is written first, and the question is asked behind it, in one transaction. By then

- no other transaction has a pending claim of the consumer, and none can make one before this one has ended. A
  claim is confirmed only out of one that is not, so nobody confirms one of this consumer any more;
- who was about to confirm one had taken its entry out of the index, and this transaction has waited for the
  end of that one to write its own. If it was a commit, the confirmed claim is in the answer: each statement
  sees what is committed by then (READ COMMITTED, see db.engine). If it was not, the pending claim is there
  still, and the new one was refused as the second of its consumer.

A claim that this transaction takes away itself is kept by the lock of its node: who would confirm it waits
for that, reads again, and finds it gone. On SQLite, transactions that write come one after the other.
"""

from nova_sched.db import bulk
from nova_sched.db.tables import CLAIMS
from nova_sched.objects.claim import CONFIRMED

PLACES = bulk.Select(CLAIMS, 'consumer_uuid', 'node_uuid', 'state', key='consumer_uuid')


def are_elsewhere(connection, placements, outcomes):
    """Whether a placement that is won is for a new consumer which is confirmed on another node.

    All that the placements bring about must be written by then.
    """
    made = {
        claim.consumer_uuid: claim.node_uuid
        for placement, outcome in zip(placements, outcomes, strict=True)
        if placement.new and outcome.won
        for claim in placement.claims
    }
    return any(
        state == CONFIRMED and node != made[consumer]
        for consumer, node, state in (PLACES.run(connection, made) if made else ())
    )
