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
"""Translates groups between the wire and the engine: checks arguments, turns Views into
objects."""

import json

from nova_sched import errors, objects, words
from nova_sched.groups.definition import EXCLUSIVE
from nova_sched.rpc import translate

# Arguments.


def check_levels(definition, exclusive_levels):
    """Raises PolicyForbidden for a policy `exclusive` of a Definition at another level than
    these; None: all levels."""
    if exclusive_levels is None:
        return
    if not isinstance(exclusive_levels, list):
        raise errors.InvalidRequest(
            'exclusive_levels', f'{words.short(exclusive_levels)} is not a list'
        )
    allowed = [words.name(level, 'exclusive_levels') for level in exclusive_levels]
    for policy in definition.policies:
        if policy.kind == EXCLUSIVE and policy.level not in allowed:
            why = f'{policy.name} closes a whole {policy.level} to other servers'
            raise errors.PolicyForbidden(why)


def optional(check, value, where):
    """Returns ``check(value, where)``; None stays None. Raises InvalidRequest."""
    return None if value is None else check(value, where)


def flag(value, where):
    """Raises InvalidRequest for a value that is neither true nor false."""
    if not isinstance(value, bool):
        raise errors.InvalidRequest(where, f'{words.short(value)} is neither true nor false')
    return value


def owner(context):
    """The context of a caller, whose names are recorded. Raises InvalidRequest."""
    for name in ('project_id', 'user_id'):
        optional(words.name, getattr(context, name), f'{name} of the caller')
    return context


# Answers.


def top_group(view):
    """A GroupView as TopGroup."""
    details = summary(view)
    details.template = view.source.get('template', '')
    details.parameters = json.dumps(view.source.get('parameters') or {})
    details.members = [_member(member) for member in view.members]
    details.moves = [_move(move) for move in view.moves]
    return details


def summary(view):
    """A GroupView as TopGroup of a list."""
    return objects.TopGroup(
        uuid=view.uuid,
        name=view.name,
        project_id=view.project_id,
        user_id=view.user_id,
        status=view.status,
        generation=view.generation,
        serial=view.serial,
        warnings=list(view.warnings),
        dry_run=view.dry_run,
        created_at=translate.moment(view.created_s),
        updated_at=translate.moment(view.updated_s),
        expires_at=translate.moment(view.expires_s),
    )


def _member(member):
    return objects.GroupMember(
        path=member.path,
        state=member.state,
        member_uuid=member.member_uuid,
        instance_uuid=member.instance_uuid,
        host=member.host,
        nodename=member.nodename,
        compute_node_uuid=member.node_uuid,
        availability_zone=member.zone,
        domains=dict(member.domains),
    )


def _move(move):
    return objects.GroupMove(
        path=move.path,
        instance_uuid=move.instance_uuid,
        from_host=move.source or None,
        to_host=move.target,
        reason=move.reason,
    )
