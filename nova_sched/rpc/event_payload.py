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
"""The payloads of events, from decision records, plans of groups, and changes of claims.

doc/source/notifications.rst describes each field; a test compares both.
A new field makes a new minor version. A field that ends or changes its meaning makes a new major
one.
"""

import datetime

from nova_sched.claim import PLANNED
from nova_sched.objects.object_io import DATA, NAME, NAMESPACE, VERSION

OWN = 'nova_sched'
OF_CLAIM = 'state project_id user_id request_id move group_uuid top_group member'.split()
OF_REFUSAL = 'request_id reason for_tenants hosts instances found attempts took_ms'.split()


def refusal(record):
    """Returns the RequestRefusedPayload of the decision record of a refused request; None where
    the record has no such field."""
    return _payload(
        'RequestRefusedPayload',
        {
            **{name: record.get(name) for name in OF_REFUSAL},
            'refused_at': _moment(record['time']),
            'request': _payload('RefusedRequestPayload', record['asked']),
            'filters': [
                _payload('FilterPayload', filter_record) for filter_record in record['filters']
            ],
        },
    )


def group(event, facts):
    """Returns the payload of an event of a group, one of engine.groups.group_events."""
    data = {name: value for name, value in facts.items() if name not in ('time', 'expires')}
    data[f'{event}_at'] = _moment(facts['time'])
    if 'expires' in facts:
        data['expires_at'] = facts['expires'] and _moment(facts['expires'])
    if 'members' in facts:
        data['members'] = [_payload('GroupMemberPayload', member) for member in facts['members']]
    return _payload(f'Group{event.capitalize()}Payload', data)


def claims(changes, some):
    """Returns the ClaimsPayload of ``some`` claims among ClaimChanges, all of one kind."""
    hosts = changes.hosts
    data = {
        'changed_at': _moment(changes.now_s),
        'cause': changes.cause,
        'claims': [
            _payload('ClaimPayload', _claim(claim, hosts.get(claim.node_uuid))) for claim in some
        ],
    }
    return _payload('ClaimsPayload', data)


def _claim(claim, host):
    resizing = claim.resizing
    return {
        'uuid': claim.uuid,
        'instance_uuid': None if claim.state == PLANNED else claim.consumer_uuid,
        'host': host,
        'node_uuid': claim.node_uuid,
        'resources': dict(claim.resources),
        'new_resources': resizing and dict(resizing.new),
        **{name: getattr(claim, name) for name in OF_CLAIM},
        'expires_at': claim.expires_s and _moment(claim.expires_s),
    }


def _payload(name, data, version='1.0'):
    return {NAME: name, NAMESPACE: OWN, VERSION: version, DATA: dict(data)}


def _moment(seconds):
    """Seconds since the epoch, in the form of ISO 8601."""
    instant = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return instant.isoformat(timespec='microseconds').replace('+00:00', 'Z')
