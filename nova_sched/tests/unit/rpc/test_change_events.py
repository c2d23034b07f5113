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
"""Change events: what is sent, and what is accepted."""

import json

import oslo_messaging as messaging
import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.engine.sync.changes import ChangeEvent, Commit
from nova_sched.rpc import endpoints
from nova_sched.rpc.change_events import ChangeEventClient, from_plain, to_plain
from nova_sched.rpc.change_events import ChangeEventEndpoint as Endpoint
from nova_sched.tests.builders import NOW, claim, uuid_of

A, B, NODE, OTHER = uuid_of('instance A'), uuid_of('instance B'), uuid_of('node'), uuid_of('other')
FULL = ChangeEvent(
    NOW + 0.5,
    (
        Commit(
            {NODE: (3, 4), OTHER: (1, 2)}, (A, B), (claim(A, NODE), claim(B, OTHER, expires_s=NOW))
        ),
        Commit({NODE: (4, 5)}, (A,), ()),
    ),
    {OTHER: 7, uuid_of('third'): None},
    True,
)


class Listener:
    """A scheduler that only listens."""

    def __init__(self):
        self.uuid = 'mine'
        self.heard = []

    def receive(self, news):
        self.heard.append(news)


@pytest.mark.parametrize(
    'news',
    [pytest.param(FULL, id='all of it'), pytest.param(ChangeEvent(NOW), id='next to nothing')],
)
def test_there_and_back(news):
    assert from_plain(**json.loads(json.dumps(to_plain(news)))) == news


def test_a_claim_that_cannot_be_read_leaves_its_nodes_to_be_looked_at():
    told = to_plain(FULL)
    told['commits'][0]['claims'][1]['colour'] = 'red'
    heard = from_plain(**told)
    assert heard.commits == FULL.commits[1:]
    assert heard.looks == {NODE: 4, OTHER: 7, uuid_of('third'): None}


@pytest.mark.parametrize(
    'name, value',
    [
        pytest.param('created_s', None, id='made at no time'),
        pytest.param('created_s', '1', id='made at a text'),
        pytest.param('changed_s', {}, id='changed at no time'),
        pytest.param('changed_s', True, id='changed at a boolean'),
        pytest.param('expires_s', float('nan'), id='expires at no number'),
        pytest.param('counted', 1, id='counted by a number'),
        pytest.param('unseen', None, id='unseen or not'),
        pytest.param('state', 7, id='state is no text'),
        pytest.param('uuid', 'x', id='no UUID'),
        pytest.param('resources', {'VCPU': -1}, id='a negative amount'),
        pytest.param('image_properties', {'a': 1}, id='an image property that is no text'),
    ],
)
def test_a_claim_with_a_field_of_a_wrong_type_is_not_read(name, value):
    told = to_plain(FULL)
    told['commits'][0]['claims'][1][name] = value
    assert from_plain(**told).commits == FULL.commits[1:]


def test_the_endpoint_hands_it_on():
    listener = Listener()
    Endpoint(listener).changed({}, origin='other', **to_plain(FULL))
    assert listener.heard == [FULL]


def test_own_news_are_none():
    listener = Listener()
    Endpoint(listener).changed({}, origin='mine', **to_plain(FULL))
    assert listener.heard == []


@pytest.mark.parametrize(
    'told',
    [
        pytest.param({}, id='nothing'),
        pytest.param({'made_s': 'x'}, id='no time'),
        pytest.param({'made_s': 0, 'colour': 'red'}, id='a word of a later release'),
        pytest.param({'made_s': 0, 'commits': [{}]}, id='no nodes'),
        pytest.param({'made_s': 0, 'commits': [{'nodes': [1]}]}, id='nodes are no mapping'),
        pytest.param({'made_s': 0, 'commits': [{'nodes': {NODE: [1]}}]}, id='one generation'),
        pytest.param({'made_s': 0, 'commits': [{'nodes': {NODE: [1, 'x']}}]}, id='no generation'),
        pytest.param({'made_s': 0, 'commits': [{'nodes': {NODE: [1, 2]}}]}, id='no claims'),
        pytest.param({'made_s': 0, 'commits': 'x'}, id='commits are text'),
        pytest.param({'made_s': 0, 'looks': [NODE]}, id='looks are no mapping'),
        pytest.param({'made_s': 0, 'looks': {NODE: 'x'}}, id='looks at no generation'),
    ],
)
def test_what_cannot_be_read_changes_nothing(told, caplog):
    listener = Listener()
    Endpoint(listener).changed({}, origin='other', **told)
    assert listener.heard == []
    assert 'Change event of scheduler other cannot be read' in caplog.text


def test_no_news_on_the_topic_of_callers():
    assert not [one for one in endpoints.all_of(Listener()) if one.target.namespace == 'news']


def test_a_bus_that_does_not_take_it():
    bus = rpc.transport(CONF, 'fake://')
    client = ChangeEventClient(bus, 'mine')

    def refuse(*args, **words):
        raise messaging.MessageDeliveryFailure('it is away')

    bus._driver.send = refuse
    with pytest.raises(errors.NoAnswer, match='it is away'):
        client.tell(FULL)
    bus.cleanup()
