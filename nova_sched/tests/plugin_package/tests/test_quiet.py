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
"""QuietWeigher: fewer instances are better."""

import numpy as np

from acme_rules.quiet import QuietWeigher
from nova_sched.tests.builders import hosts, request


def test_quiet():
    seen = hosts(num_instances=[0, 2, 1])
    assert QuietWeigher().raw(seen, np.arange(3), request()).tolist() == [0, -2, -1]
