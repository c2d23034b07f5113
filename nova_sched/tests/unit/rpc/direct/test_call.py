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
"""A message in the direct server."""

import pytest

from nova_sched.rpc.direct.call import Call


class Session:
    def __init__(self):
        self.settled = []

    def settle(self, tag):
        self.settled.append(tag)


def message(**words):
    return {'method': 'ping', 'args': {}, '_context_user': 'me', '_unique_id': 'u', **words}


def test_its_parts():
    call = Call(message(_msg_id='m', _reply_q='q', _timeout=8))
    assert call.message == {'method': 'ping', 'args': {}}
    assert call.ctxt == {'user': 'me', 'client_timeout': 8}
    assert (call.msg_id, call.reply_q, call.unique_id) == ('m', 'q', 'u')
    assert (call.client_timeout, call.beat_s) == (8, 4.0)


@pytest.mark.parametrize(
    'timeout, interval_s',
    [
        *(
            (value, None)
            for value in (None, 0, 1, 1.9, -4, True, 'soon', [], float('inf'), 10**30)
        ),
        (2, 1.0),
        (5.9, 2.5),
        (60, 30.0),
    ],
)
def test_the_interval_of_its_signs_of_life(timeout, interval_s):
    assert Call(message(_timeout=timeout)).beat_s == interval_s


def test_deliveries_of_another_connection_are_not_acknowledged():
    call, old, new = Call(message()), Session(), Session()
    call.tags += [(old, 3), (new, 1), (new, 2)]
    call.settle(new)
    assert (old.settled, new.settled, call.tags) == ([], [1, 2], [])
