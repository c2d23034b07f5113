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
"""The threads that make parallel calls."""

import collections
import concurrent.futures


class Pool(concurrent.futures.ThreadPoolExecutor):
    """At most one call in flight per thread. Leaving the context manager cancels calls that have
    not begun."""

    def each(self, work, items):
        """Does the work for each of the items; raises the exception of the first that failed."""
        collections.deque(self.map(work, items), maxlen=0)

    def __exit__(self, *raised):
        self.shutdown(cancel_futures=True)
