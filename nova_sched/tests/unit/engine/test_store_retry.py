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
"""Tests of the store_retry with the store."""

import random
import types

import pytest

from nova_sched import errors
from nova_sched.engine import Settings
from nova_sched.engine.loop import BUSY, StoreRetry

AWAY, TAKEN = errors.StoreUnavailable('away'), errors.StoreBusy('a deadlock')


def store_retry():
    loop = types.SimpleNamespace(hurried=False, pause=lambda seconds: None)
    context = types.SimpleNamespace(
        settings=Settings, random=random.Random(1), figures=types.SimpleNamespace(busy=0)
    )
    return StoreRetry(loop, context)


def working(*troubles):
    """Work that meets these troubles, one each time, and is done then."""
    left = list(troubles)

    def work():
        if left:
            raise left.pop(0)
        return 'done'

    return work


@pytest.mark.parametrize(
    'troubles',
    [
        pytest.param([], id='none'),
        pytest.param([TAKEN] * (BUSY - 1), id='others in the way'),
        pytest.param([AWAY] * (3 * BUSY), id='a long outage'),
        pytest.param(
            [AWAY] * (3 * BUSY) + [TAKEN] * 3, id='others in the way after a long outage'
        ),
        pytest.param([TAKEN] * (BUSY - 1) + [AWAY] + [TAKEN] * (BUSY - 1), id='and before it'),
    ],
)
def test_it_is_done_in_the_end(troubles):
    assert store_retry().until_done(working(*troubles)) == 'done'


def test_it_gives_up_where_others_are_always_in_the_way():
    with pytest.raises(errors.StoreBusy):
        store_retry().until_done(working(*[TAKEN] * BUSY))
