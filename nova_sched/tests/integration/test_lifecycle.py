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
"""Random lives of instances on several schedulers before one database server, see the machine."""

from nova_sched.claims.sql import SqlClaimStore
from nova_sched.tests.builders import still
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.engine.test_machine import TwoEngines, search


def test_each_consumer_is_counted_once_and_no_capacity_is_exceeded(upgraded):
    class OnServer(TwoEngines):
        def stores(self):
            clean = cleared(upgraded)
            return lambda: SqlClaimStore(clean, still)

    search(OnServer, 8)
