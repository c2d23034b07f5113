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

"""Addresses to which a login may lead."""

import pytest

from nova_sched.dashboard.security import POLICY, local_path


@pytest.mark.parametrize(
    'path, is_local',
    [
        ('/dashboard/cluster?host=a', True),
        ('', False),
        (None, False),
        ('//evil.example/x', False),
        ('https://evil.example', False),
        ('/\\evil.example', False),
        ('javascript:alert(1)', False),
    ],
)
def test_a_path(path, is_local):
    assert local_path(path) == (path if is_local else None)


def test_nothing_inline():
    assert 'unsafe' not in POLICY
    assert "default-src 'none'" in POLICY
