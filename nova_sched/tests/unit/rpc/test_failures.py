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
"""How errors leave by the bus, and what comes in is made of."""

import logging
import types

import oslo_messaging as messaging
import pytest
from oslo_messaging._drivers import common

from nova_sched import errors
from nova_sched.rpc import messages

# One of each, with facts that can travel.
ERRORS = [
    errors.MalformedObject('RequestSpec.flavor', 'it is a number'),
    errors.IncompatibleObject('RequestSpec', '2.0', '1.15'),
    errors.InvalidRequest('instance_uuids', 'given twice'),
    errors.BadReport('node', 'vcpus', '-1 is negative'),
    errors.NodeOwned('node', 'host', 'another host reports it'),
    errors.ComputeResourcesUnavailable('node', 'VCPU: 1 asked, 0 available'),
    errors.NodeNotFound('n on host a'),
    errors.ClaimNotFound('instance x'),
    errors.TemplateError('resources.web', 3, 7, 'there is no such type'),
    errors.TemplateError('resources.web', None, None, 'there is no such type'),
    errors.GroupNotFound('x'),
    errors.GroupChanged('x', 2, 3),
    errors.GroupRefused('too small', {'core': ['a', 'b'], 'fits': None, 'failing': {'held': 3}}),
    errors.StoreUnavailable('connection refused'),
    errors.StoreBusy('deadlock detected'),
    errors.StoreFull('disk full'),
    errors.NovaUnavailable('connection refused'),
    errors.NovaRefused('no such host', 400),
    errors.NovaForbidden('no such role'),
    errors.NovaConflict('in task_state migrating'),
    errors.PlacementUnavailable('connection refused'),
    errors.PlacementRefused('no such resource class', 400),
    errors.PlacementConflict('no capacity', 'placement.undefined_code'),
]


class Endpoint:
    """Raises what it was made with."""

    def __init__(self, error):
        self._error = error

    @messages.expected
    def method(self, context, name, more=None):
        """Raises, or returns what it got."""
        if self._error:
            raise self._error
        return name, more


def leaving(error):
    """The error that oslo.messaging sends for one that an endpoint raises."""
    with pytest.raises(messaging.ExpectedException) as expected:
        Endpoint(error).method(None, 'x')
    return expected.value.exc_info[1]


def over_the_wire(error):
    """The same error as a client of ours gets it from a broker."""
    text = common.serialize_remote_exception((type(error), error, error.__traceback__))
    return common.deserialize_remote_exception(text, ['nova_sched.errors'])


def test_an_answer_is_an_answer():
    assert Endpoint(None).method(None, 'x', more=1) == ('x', 1)


@pytest.mark.parametrize('error', ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_ours_arrives_as_itself(error):
    arrived = messages.known(over_the_wire(leaving(error)))
    assert type(arrived) is type(error)
    assert arrived.args == error.args
    assert str(arrived) == str(error)
    assert {name: getattr(arrived, name) for name in error.facts} == vars(error)


@pytest.mark.parametrize(
    'refusal, reason',
    [
        pytest.param(errors.NoValidHost('All are full.'), 'All are full.', id='NoValidHost'),
        pytest.param(
            errors.TooManyConflicts(3),
            'Hosts that fit were taken by other requests, 3 times in a row.',
            id='races',
        ),
        pytest.param(
            errors.MemberRefused(
                'app/web/3', 'flavor.vcpus was planned to be 2, but 4 is asked for'
            ),
            'Member app/web/3 of its group: flavor.vcpus was planned to be 2, but 4 is asked for.',
            id='not as planned',
        ),
    ],
)
def test_a_refusal_leaves_as_novas_class_and_arrives_as_ours(refusal, reason):
    left = leaving(refusal)
    assert (type(left).__module__, type(left).__name__) == ('nova.exception', 'NoValidHost')
    assert left.args == (f'No valid host was found. {reason}',)
    assert left.kwargs == {'reason': reason, 'code': 500}
    for arrived in (messages.known(left), messages.known(over_the_wire(left))):
        assert type(arrived) is errors.NoValidHost
        assert arrived.reason == reason


def test_an_unexpected_error_is_left_alone():
    with pytest.raises(ZeroDivisionError):
        Endpoint(ZeroDivisionError()).method(None, 'x')


def test_an_error_of_others_is_left_alone():
    error = messaging.RemoteError('KeyError', 'x')
    assert messages.known(error) is error


@pytest.mark.parametrize(
    'arguments, why',
    [
        pytest.param({}, "missing a required argument: 'name'", id='too few'),
        pytest.param(
            {'name': 1, 'other': 2}, "got an unexpected keyword argument 'other'", id='too many'
        ),
        pytest.param(
            {'name': 1, 'self': 2}, "multiple values for argument 'self'", id='its own name'
        ),
        pytest.param(
            {'name': 1, 'x' * 8000: 2},
            "got an unexpected keyword argument '" + 'x' * 219,
            id='one with a long name',
        ),
    ],
)
def test_wrong_arguments_are_named(arguments, why):
    with pytest.raises(messaging.ExpectedException) as expected:
        types.MethodType(Endpoint.method, Endpoint(None))(None, **arguments)
    refused = expected.value.exc_info[1]
    assert type(refused) is errors.InvalidRequest
    assert (refused.where, refused.why) == ('arguments of method', why)


@pytest.mark.parametrize(
    'error, lines',
    [
        pytest.param(
            errors.InvalidRequest('here', 'no'),
            ['method refused: Invalid request, here: no'],
            id='a mistake',
        ),
        pytest.param(errors.NoValidHost('full'), [], id='a refusal has its line from the engine'),
    ],
)
def test_the_log_has_a_line_and_no_traceback(caplog, error, lines):
    caplog.set_level(logging.DEBUG)
    leaving(error)
    assert caplog.messages == lines
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    'error, level',
    [
        pytest.param(errors.ClaimNotFound('x'), logging.INFO, id='what is not there'),
        pytest.param(errors.InvalidRequest('x', 'y'), logging.WARNING, id='what makes no sense'),
    ],
)
def test_how_loud_the_log_is(caplog, error, level):
    caplog.set_level(logging.DEBUG)
    leaving(error)
    assert [record.levelno for record in caplog.records] == [level]
