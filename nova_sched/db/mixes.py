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
"""The mix of requests in the database."""

from nova_sched.db.shared_counts import SharedCounts
from nova_sched.db.tables import MIXES
from nova_sched.packing.mix import Mix


class SqlMixes(SharedCounts):
    """The Mix of each scheduler."""

    def __init__(self, engine):
        super().__init__(engine, MIXES, Mix, 'The mix of requests')
