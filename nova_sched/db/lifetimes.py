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
"""How long servers lasted, in the database."""

from nova_sched.db.shared_counts import SharedCounts
from nova_sched.db.tables import LIFETIMES
from nova_sched.lifetimes.ends import Ends


class SqlLifetimes(SharedCounts):
    """The Ends that each scheduler has seen."""

    def __init__(self, engine):
        super().__init__(engine, LIFETIMES, Ends, 'The record of how long servers last')
