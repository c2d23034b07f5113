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
"""Files that daemons write for themselves."""

import os

ONLY_OWNER = 0o600


def private(path: str, flags: int) -> int:
    """An opener for ``open``: a file that it makes is for its owner only, under any umask."""
    return os.open(path, flags, ONLY_OWNER)
