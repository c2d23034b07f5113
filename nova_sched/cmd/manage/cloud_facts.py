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

"""The claim store of the configuration, and the facts about all hosts in it."""

from nova_sched.claims.cloud_facts import (
    DISABLED,
    DOWN,
    FORCED_DOWN,
    UNKNOWN,
    UP,
    CloudFacts,
)
from nova_sched.claims.maintenance import ClaimMaintenance
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import store
from nova_sched.conf.cluster import reads_nova

__all__ = [
    'DISABLED',
    'DOWN',
    'FORCED_DOWN',
    'UNKNOWN',
    'UP',
    'CloudFacts',
    'maintenance',
    'opened',
    'read_cloud',
]


def opened(conf):
    """The claim store. Raises BadConfig or StoreUnavailable."""
    return SqlClaimStore(store.ready(conf))


def maintenance(conf):
    """The maintenance of the claim store. Raises BadConfig or StoreUnavailable."""
    return ClaimMaintenance(store.ready(conf))


def read_cloud(conf):
    """The cloud as it is now. Raises BadConfig or StoreUnavailable."""
    claims = opened(conf)
    return CloudFacts(
        claims.changes({}),
        claims.now_s(),
        conf.service_down_time,
        conf.default_availability_zone,
        reads_nova=reads_nova(conf),
    )
