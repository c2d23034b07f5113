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
"""What only Placement's allocation candidates tell: sharing providers, and room that has just come
up."""

from collections import Counter

from nova_sched.tests.stock_cloud.waiting import eventually

POOL = 'CUSTOM_POOL_GB'


def test_a_sharing_provider(servers, placement):
    with placement.sharing('pool', ['cmp1', 'cmp2'], **{POOL: 10}) as pool:
        flavor = servers.flavor(specs={f'resources:{POOL}': '4'})
        booted = servers.boot(flavor, 2)
        assert Counter(one.status for one in booted) == {'ACTIVE': 2}
        assert {one.host for one in booted} <= {'cmp1', 'cmp2'}
        assert placement.allocations() == {
            one.uuid: {one.host: flavor.resources, pool: {POOL: 4}} for one in booted
        }
        (refused,) = servers.boot(flavor)
        assert (refused.status, refused.host) == ('ERROR', None)
        servers.delete(one.uuid for one in [*booted, refused])
        eventually({}, placement.allocations)
