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
"""Names that Nova and the scheduler write into requests, sent by a tenant at each entrance."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.extensions.dashboard import what_if
from nova_sched.extensions.queues.catalogue import checked_flavor
from nova_sched.groups.definition import Member, MemberFlavor
from nova_sched.groups.members import member_spec
from nova_sched.groups.template import read
from nova_sched.rpc import translate
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import outcome, spec
from nova_sched.tests.functional.test_api import call, template  # noqa: F401
from nova_sched.words import EXTRA_SPEC, HINT, IMAGE_PROPERTY

NAMES = {
    HINT: ['_nova_check_type', '_nova_', 'nova_object.name', '_nova_a\nb'],
    EXTRA_SPEC: [
        'trait:COMPUTE_STATUS_DISABLED',
        'trait_1:COMPUTE_STATUS_DISABLED',
        'trait1:OWNER_NOVA',
        'nova_object.data',
    ],
    IMAGE_PROPERTY: ['traits_required', 'trait:COMPUTE_STATUS_DISABLED', 'nova_object.version'],
}
# Names that are alike, and a caller's own.
ALLOWED = {
    HINT: ['nova_check_type', 'different_host', 'my_nova_', 'group'],
    EXTRA_SPEC: ['trait:CUSTOM_COMPUTE_STATUS_DISABLED', 'hw:cpu_policy', 'nova_sched:ttl'],
    IMAGE_PROPERTY: ['trait:CUSTOM_A', 'nova_sched_ttl', 'os_distro'],
}
VALUE = 'rebuild'
FLAVOR = {'vcpus': 1, 'ram': 512, 'disk': 0}


def server(**properties):
    return {'type': 'OS::Nova::Server', 'properties': {'flavor': FLAVOR, **properties}}


def described(one):
    return {'template': {'heat_template_version': '2021-04-16', 'resources': {'one': one}}}


def in_hints(name):
    return described(server(scheduler_hints={name: VALUE}))


def in_extra_specs(name):
    return described(server(flavor={**FLAVOR, 'extra_specs': {name: VALUE}}))


def in_image(name):
    return described(server(image={'properties': {name: VALUE}}))


def inside_a_group(name):
    inner = server(scheduler_hints={name: VALUE})
    group = {'type': 'OS::Heat::ResourceGroup', 'properties': {'resource_def': inner}}
    return described(group)


def by_a_parameter(name):
    made = described(server(scheduler_hints={'get_param': 'hints'}))
    made['template']['parameters'] = {'hints': {'type': 'json'}}
    return {**made, 'parameters': {'hints': {name: VALUE}}}


def by_a_function(name):
    made = described(server(scheduler_hints={'if': ['so', {name: VALUE}, {}]}))
    made['template']['conditions'] = {'so': True}
    return made


def with_a_flavor(name):
    flavor = {**FLAVOR, 'extra_specs': {name: VALUE}}
    return {**described(server(flavor='mine')), 'flavors': {'mine': flavor}}


def with_an_image(name):
    return {**described(server(image='mine')), 'images': {'mine': {'properties': {name: VALUE}}}}


BODIES = [
    (HINT, in_hints),
    (HINT, inside_a_group),
    (HINT, by_a_parameter),
    (HINT, by_a_function),
    (EXTRA_SPEC, in_extra_specs),
    (EXTRA_SPEC, with_a_flavor),
    (IMAGE_PROPERTY, in_image),
    (IMAGE_PROPERTY, with_an_image),
]


def as_text(body):
    """The body with its template as text: other than a mapping, it reaches the reader as it is,
    with keys of versioned objects too."""
    return {**body, 'template': json.dumps(body['template'])}


@pytest.mark.usefixtures('two_hosts')
def test_the_api(call, started):  # noqa: F811
    """Also the way of Heat's plug-in, of the client and of the shell."""
    status, _, own = call('POST', '/v1/groups', {'template': template(1)})
    assert status == 201
    path, wrong, claims = f'/v1/groups/{own["uuid"]}', [], started.table('claims')
    for method, where, headers in (
        ('POST', '/v1/groups', {}),
        ('POST', '/v1/groups/validate', {}),
        ('PUT', path, {'If_Match': '*'}),
    ):
        for kind, make in BODIES:
            for name in NAMES[kind]:
                for body in (make(name), as_text(make(name))):
                    status, _, said = call(method, where, body, **headers)
                    detail = said['errors'][0]['detail'] if status == 400 else str(said)
                    # A mapping with such a key is no template: the bus reads it as an object.
                    is_object = name.startswith('nova_object') and 'Malformed object' in detail
                    if not is_object and f'{kind} {name!r} is for internal use' not in detail:
                        wrong.append((method, where, make.__name__, name, status, detail))
    assert wrong == []
    assert call('GET', path)[2]['generation'] == 1
    assert started.table('claims') == claims
    assert call('DELETE', path)[0] == 204


def test_names_that_are_the_callers_own():
    for kind, make in BODIES:
        for name in ALLOWED[kind]:
            body = make(name)
            assert read(
                body['template'], body.get('parameters'), body.get('flavors'), body.get('images')
            ).members


def test_bodies_without_a_template():
    """What a request may be, flavors of queues, and groups that an earlier release stored."""
    flavor = {'name': 'x', 'vcpus': 1, 'memory_mb': 1}
    form = {'vcpus': '1', 'ram': '1', 'disk': '0'}
    wrong = []
    for name in NAMES[EXTRA_SPEC]:
        for work, given in (
            (what_if.read, {**form, 'extra_specs': f'{name}={VALUE}'}),
            (what_if.read, {**form, 'flavor': json.dumps({'properties': {name: VALUE}})}),
            (lambda row: checked_flavor(row, 0.0), {**flavor, 'extra_specs': {name: VALUE}}),
        ):
            found = outcome(work, given)
            if not (isinstance(found, errors.InvalidRequest) and 'is for internal' in str(found)):
                wrong.append((given, found))
    for name in NAMES[HINT]:
        found = outcome(member_spec.spec_of, Member('a', MemberFlavor(1, 1), hints={name: VALUE}))
        if not (isinstance(found, errors.InvalidRequest) and 'is for internal' in str(found)):
            wrong.append((name, found))
    assert wrong == []


def test_a_forged_rebuild_is_a_boot(two_hosts):
    """It takes no place that there is not, and what it gets is claimed."""
    hint = {'scheduler_hints': {'_nova_check_type': ['rebuild']}}
    full = outcome(lambda: two_hosts.boot('forged', vcpus=100, **hint))
    assert isinstance(full, errors.NoValidHost)
    claims = len(two_hosts.table('claims'))
    assert two_hosts.boot('forged', **hint)[0] in ('a', 'b')
    assert len(two_hosts.table('claims')) == claims + 1


HOST = {'force_hosts': ['a'], 'force_nodes': ['a']}
THERE = {'requested_destination': objects.Destination(host='a', node='a')}


def test_what_a_conductor_passes_on():
    """A rebuild is one that is forced to its host, as Nova sends it: a hint that is only a
    tenant's is left out, and all rules are asked."""
    wrong = []
    for value, fields, check in (
        (['rebuild'], HOST, 'rebuild'),
        (['rebuild'], {**HOST, **THERE}, 'rebuild'),
        (['rebuild'], {}, None),
        (['rebuild'], THERE, None),
        (['rebuild'], {'force_hosts': ['a'], 'force_nodes': []}, None),
        (['rebuild'], {'force_hosts': None, 'force_nodes': ['a']}, None),
        (['resize'], {}, 'resize'),
        (['rebuild', 'rebuild'], {}, ['rebuild', 'rebuild']),
    ):
        given = spec(scheduler_hints={'_nova_check_type': value, 'x': ['y']}, **fields)
        (request,) = translate.requests(given, [uuid_of('one')])
        found = request.check_type, request.is_rebuild, request.hint('x')
        if found != (check, check == 'rebuild', 'y'):
            wrong.append((value, fields, found))
    old = {'request_spec': {'instance_type': spec().flavor, 'num_instances': 1}}
    hints = {'scheduler_hints': {'_nova_check_type': 'rebuild'}}
    (request,) = translate.requests(translate.spec(None, old['request_spec'], hints))
    assert (wrong, request.check_type) == ([], None)
