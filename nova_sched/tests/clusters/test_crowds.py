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
"""Crowds of callers while nodes of clusters are killed and cut off; ``crowd`` does the same on any
scale."""

import pytest

from nova_sched.tests.clusters.clouds import OnGalera, OnRabbitmq
from nova_sched.tests.integration import crowd

pytestmark = pytest.mark.timeout(1800)

SCHEDULERS = 4
# So many that the crowd outlasts the outages: a node of RabbitMQ takes half a minute to come back.
ON_GALERA, ON_RABBITMQ = 8_000, 12_000
# An answer that took so long was held up by an outage: the others take less than a second.
HELD_UP_S = 3.0


def wrong(faults):
    return {about: found for about, found in faults.items() if found}


def waits_s(answers):
    return [answer['answered_s'] - answer['sent_s'][0] for answer in answers]


def test_a_crowd_on_galera(galera, rabbitmq, tmp_path):
    where = OnGalera(galera, rabbitmq, tmp_path)
    outcome = crowd.run_on_cluster(where, ON_GALERA, schedulers=SCHEDULERS)
    assert wrong(outcome.faults) == {}
    # None has to be sent again: who waits for a server says so, and RabbitMQ gives away what a
    # killed scheduler had.
    assert max(waits_s(outcome.answers)) > HELD_UP_S
    assert outcome.figures['undone for others'] > 0


def test_a_crowd_on_a_cluster_of_rabbitmq(rabbitmq_cluster, postgresql, tmp_path):
    where = OnRabbitmq(rabbitmq_cluster, postgresql, tmp_path)
    # Whether a request has to be sent again is a matter of luck. That each node has been down, the
    # faults say.
    outcome = crowd.run_on_cluster(where, ON_RABBITMQ, schedulers=SCHEDULERS)
    assert wrong(outcome.faults) == {}
