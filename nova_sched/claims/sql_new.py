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
"""Refuses a claim of a consumer that is confirmed already, if the validation did not know that.

Two events must not both happen: a pending claim becomes confirmed on one node, and a request that
is no move claims the same consumer on another node. A consumer has no row that both transactions
could lock, and a transaction that has read that there is no claim may be wrong a moment later.
Both do meet in the unique index of the column ``unconfirmed``: each claim that is not confirmed
has its consumer there.

So the new claim is written first. Then, in the same transaction, every confirmed claim of its
consumer gets that entry too, which the index refuses: the transaction is rolled back, and the
placement is validated again with all claims of the consumer. Nearly always there is no confirmed
claim, and the statement finds no row. It returns no rows, so on PostgreSQL it is sent with the
other statements. By the time that it runs,

- no other transaction has a pending claim of the consumer, and none can make one before this one
  has ended. A claim is confirmed only from an unconfirmed one, so no claim of this consumer
  becomes confirmed any more;
- a transaction that was about to confirm one had taken its entry out of the index, and this
  transaction has waited for its end to write its own entry. If it committed, the statement sees
  the confirmed claim: each statement sees the data committed by then (READ COMMITTED, see
  db.engine). If it did not, the pending claim still exists, and the new one was refused as the
  second of its consumer.

On Galera, no transaction waits for one on another server. There the entry in the index is a key of
both: of the transaction that removes it and of the one that adds it. Of two transactions that did
not see each other, the second is rolled back.

A claim that this transaction removes itself is protected by the lock of its node: a transaction
that would confirm it waits for that, reads again, and finds it gone. On SQLite, transactions that
write run one after the other.
"""

from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.db import bulk
from nova_sched.db.tables import CLAIMS

IS_CONFIRMED = f"state = '{CONFIRMED}'"
ENTER_CONFIRMED = bulk.Mark(
    CLAIMS, 'unconfirmed', 'consumer_uuid', 'uq_claims_consumer_uuid', IS_CONFIRMED
)


def refuse_confirmed(connection, placements, held):
    """Make the database refuse claims of placements that are not moves for consumers confirmed on
    other nodes.

    All changes of the placements (Held) must be written before. Raises DBDuplicateEntry or
    IntegrityError.
    """
    firm = {
        claim.uuid
        for one in placements
        if not one.may_move
        for claim in one.claims
        if claim.state == PENDING
    }
    made = {claim.consumer_uuid for claim in held.added.values() if claim.uuid in firm}
    ENTER_CONFIRMED.run(connection, sorted(made))
