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
"""The JSON of groups, and the entity tag of one."""

import datetime
import hashlib
import json

from nova_sched import errors

BRIEF = (
    'uuid',
    'name',
    'project_id',
    'user_id',
    'status',
    'generation',
    'serial',
    'warnings',
    'dry_run',
)
TIMES = ('created_at', 'updated_at', 'expires_at')
MEMBER = (
    'path',
    'state',
    'member_uuid',
    'instance_uuid',
    'host',
    'nodename',
    'compute_node_uuid',
    'availability_zone',
)
MOVE = ('path', 'instance_uuid', 'from_host', 'to_host', 'reason')
# Keys that name a host.
HOSTS = frozenset(['host', 'nodename', 'compute_node_uuid', 'from_host', 'to_host'])
HOST_LEVEL = 'host'


def brief(group, root):
    """A group as a list shows it; ``root`` is the address of the API, without a trailing slash."""
    view = {name: getattr(group, name) for name in BRIEF if name in group}
    view.update({name: _time(getattr(group, name)) for name in TIMES if name in group})
    at = f'{root}/v1/groups/{group.uuid}'
    view['links'] = (
        []
        if group.uuid is None
        else [{'rel': 'self', 'href': at}, {'rel': 'plan', 'href': f'{at}/plan'}]
    )
    return view


def plan(group, root, with_hosts):
    """A group with its members' places; ``with_hosts``: includes the names of hosts."""
    return {
        **brief(group, root),
        'members': [_member(member, with_hosts) for member in group.members],
    }


def whole(group, root, with_hosts):
    """All fields of a group."""
    view = plan(group, root, with_hosts)
    view['template'] = group.template
    view['parameters'] = json.loads(group.parameters or '{}')
    view['moves'] = [_shown(move, MOVE, with_hosts) for move in group.moves]
    return view


def _member(member, with_hosts):
    view = _shown(member, MEMBER, with_hosts)
    view['domains'] = dict(member.domains)
    if not with_hosts:
        # A domain that has the name of the host is null: the node reports none at that level.
        host = view['domains'].pop(HOST_LEVEL, None)
        for level, domain in view['domains'].items():
            if domain == host:
                view['domains'][level] = None
    return view


def _shown(resource, names, with_hosts):
    return {
        name: getattr(resource, name) if with_hosts or name not in HOSTS else None
        for name in names
    }


def moment(seconds):
    """Seconds since the epoch, or None."""
    return (
        None if seconds is None else _time(datetime.datetime.fromtimestamp(seconds, datetime.UTC))
    )


def _time(moment):
    return None if moment is None else moment.strftime('%Y-%m-%dT%H:%M:%SZ')


def tag(body):
    """The entity tag of a response, without its quotes.

    If-Match compares the generation only: servers that are built in the meantime do not conflict
    with a new definition. If-None-Match compares the digest, because such servers change the
    response.
    """
    digest = hashlib.blake2s(json.dumps(body, sort_keys=True).encode(), digest_size=8).hexdigest()
    return f'{body["generation"]}-{digest}'


def generation(etag):
    """The generation that an entity tag names. None for an empty tag, or one that this API never
    issued."""
    number = (etag or '').partition('-')[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= 18 else None


def without_capacity(refused):
    """The GroupRefused for a caller who may not see hosts: members, policies and filters, but no
    capacity, hosts or domains of the cloud."""
    details = refused.details or {}
    core, removed_by = details.get('core'), details.get('removed_by')
    kept = ('core', 'minimal', 'contradicts', 'proven', 'removed_by')
    if removed_by:
        sentences = [f'Member {path}: no host passes {rule}.' for path, rule in removed_by.items()]
    elif core:
        how = 'on any free hosts' if details.get('contradicts') else 'at the same time'
        sentences = [f'These policies cannot be kept {how}: {", ".join(core)}.']
    else:
        sentences = ['No suitable hosts are free for all members.']
    words = ' '.join(sentences)
    shown = {name: details[name] for name in kept if name in details}
    return errors.GroupRefused(words, {'words': words, **shown})
