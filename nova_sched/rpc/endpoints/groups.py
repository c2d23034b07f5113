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
"""The namespace `groups`: groups, placed together before the first of their servers exists."""

import json

import oslo_messaging as messaging

from nova_sched import errors, objects, words
from nova_sched.conf import CONF
from nova_sched.engine.groups.reading import Given, ReadingRules
from nova_sched.groups.definition import EXCLUSIVE
from nova_sched.rpc import translate
from nova_sched.rpc.messages import expected, once


class GroupsEndpoint:
    """The methods return TopGroup objects.

    A ``template`` is YAML or JSON text, or a mapping; ``parameters`` are its values by name,
    ``flavors`` and ``images`` those that it may name, each as it would be written in the template.
    With a ``project_id`` only groups of that project are known. With ``dry_run`` the methods
    return the group as it would be, and change nothing. All methods that take the UUID of a group
    raise GroupNotFound. ``exclusive_levels`` (since 1.1) are the levels at which the caller may
    use `exclusive`; None: all. A policy at another level raises PolicyForbidden. Without
    ``operator_specs`` (since 1.2, true before), the extra specs that are for operators raise
    TemplateError, except in the flavors of the cloud.
    """

    target = messaging.Target(namespace='groups', version='1.2')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    def _rules(self):
        return ReadingRules.of(CONF.groups, self._scheduler.groups.levels)

    def _read(self, context, given, exclusive_levels):
        """Return the Reading of what the caller has given. Raises PolicyForbidden."""
        reading = self._scheduler.groups.read(_owner(context).project_id, given, self._rules())
        if exclusive_levels is None:
            return reading
        if not isinstance(exclusive_levels, list):
            raise errors.InvalidRequest(
                'exclusive_levels', f'{words.short(exclusive_levels)} is not a list'
            )
        allowed = [words.name(level, 'exclusive_levels') for level in exclusive_levels]
        for policy in reading.definition.policies:
            if policy.kind == EXCLUSIVE and policy.level not in allowed:
                why = f'{policy.name} closes a whole {policy.level} to other servers'
                raise errors.PolicyForbidden(why)
        return reading

    @expected
    @once
    def create(
        self,
        context,
        template,
        name=None,
        parameters=None,
        flavors=None,
        images=None,
        ttl=None,
        dry_run=False,
        exclusive_levels=None,
        operator_specs=True,
    ):
        """Plan all members and claim the plan, or nothing. The group belongs to the project of the
        caller.

        ``ttl``: seconds after which members that are not created yet lose their places, `[groups]
        plan_ttl` by default. Raises TemplateError, or GroupRefused with ``details``.
        """
        given = _given(template, parameters, flavors, images, operator_specs)
        read = self._read(context, given, exclusive_levels)
        view = self._scheduler.groups.create(
            read.definition,
            read.source,
            name=_optional(words.name, name, 'name'),
            ttl_s=_optional(words.number, ttl, 'ttl'),
            dry_run=_flag(dry_run, 'dry_run'),
            context=_owner(context),
            requests=read.requests,
        )
        return _top_group(view)

    @expected
    @once
    def update(
        self,
        context,
        uuid,
        template,
        parameters=None,
        flavors=None,
        images=None,
        generation=None,
        dry_run=False,
        project_id=None,
        ttl=None,
        exclusive_levels=None,
        renew=True,
        operator_specs=True,
    ):
        """Replace the definition of a group. Returns the group with the ``moves`` that the caller
        has to make.

        With ``renew`` (since 1.1, true before) the planned claims are held for ``ttl`` more
        seconds; without, until they would end anyway.

        Raises GroupChanged if the group is not at this ``generation``, TemplateError, or
        GroupRefused; then the group stays unchanged.
        """
        uuid = words.uuid(uuid, 'uuid')
        given = _given(template, parameters, flavors, images, operator_specs)
        read = self._read(context, given, exclusive_levels)
        view = self._scheduler.groups.update(
            uuid,
            read.definition,
            read.source,
            generation=_optional(words.number, generation, 'generation'),
            dry_run=_flag(dry_run, 'dry_run'),
            project_id=_optional(words.name, project_id, 'project_id'),
            ttl_s=_optional(words.number, ttl, 'ttl'),
            context=_owner(context),
            requests=read.requests,
            renew=_flag(renew, 'renew'),
        )
        return _top_group(view)

    @expected
    def delete(self, context, uuid, generation=None, dry_run=False, project_id=None):
        """End the planned claims of a group. The claims of its servers end when the servers are
        deleted.

        Returns None, or with ``dry_run`` the group as it would be left. Raises GroupChanged.
        """
        view = self._scheduler.groups.delete(
            words.uuid(uuid, 'uuid'),
            generation=_optional(words.number, generation, 'generation'),
            dry_run=_flag(dry_run, 'dry_run'),
            project_id=_optional(words.name, project_id, 'project_id'),
        )
        return _top_group(view) if dry_run else None

    @expected
    def show(self, context, uuid, project_id=None):
        """A group with its members."""
        project_id = _optional(words.name, project_id, 'project_id')
        return _top_group(
            self._scheduler.groups.show(words.uuid(uuid, 'uuid'), project_id=project_id)
        )

    @expected
    def list(self, context, project_id=None, name=None, marker=None, limit=None):
        """Groups after the ``marker`` (the UUID of one), oldest first; without members and
        templates."""
        views = self._scheduler.groups.list(
            project_id=_optional(words.name, project_id, 'project_id'),
            name=_optional(words.name, name, 'name'),
            marker=_optional(words.uuid, marker, 'marker'),
            limit=_optional(words.number, limit, 'limit'),
        )
        return [_summary(view) for view in views]

    @expected
    @once
    def plan(self, context, uuid, project_id=None, replan=False, dry_run=False):
        """A group with its members' places and domains.

        With ``replan``, members without a good place are placed first. Raises GroupRefused.
        """
        view = self._scheduler.groups.plan(
            words.uuid(uuid, 'uuid'),
            project_id=_optional(words.name, project_id, 'project_id'),
            replan=_flag(replan, 'replan'),
            dry_run=_flag(dry_run, 'dry_run'),
        )
        return _top_group(view)

    @expected
    def renew(self, context, uuid, ttl=None, project_id=None, dry_run=False):
        """Hold the places of members that are not created yet for ``ttl`` more seconds from
        now."""
        view = self._scheduler.groups.renew(
            words.uuid(uuid, 'uuid'),
            ttl_s=_optional(words.number, ttl, 'ttl'),
            project_id=_optional(words.name, project_id, 'project_id'),
            dry_run=_flag(dry_run, 'dry_run'),
        )
        return _top_group(view)

    @expected
    def topology(self, context):
        """The number of ``domains`` of each level, and ``warnings`` about nodes that report none
        of their domains."""
        return self._scheduler.groups.topology()

    @expected
    @once
    def validate(
        self,
        context,
        template,
        parameters=None,
        flavors=None,
        images=None,
        operator_specs=True,
    ):
        """The account of a template, as ``Definition.summary`` returns it; nothing is planned.

        ``contradiction``: the policies that collide on any set of hosts, as text, or None. It
        assumes that levels nest as they do on the present hosts. Raises TemplateError.
        """
        given = _given(template, parameters, flavors, images, operator_specs)
        project_id = _owner(context).project_id
        return self._scheduler.groups.account(project_id, given, self._rules())


# Arguments.


def _optional(check, value, where):
    """Return ``check(value, where)``; None stays None. Raises InvalidRequest."""
    return None if value is None else check(value, where)


def _flag(value, where):
    """Raise InvalidRequest for a value that is neither true nor false."""
    if not isinstance(value, bool):
        raise errors.InvalidRequest(where, f'{words.short(value)} is neither true nor false')
    return value


def _given(template, parameters, flavors, images, operator_specs):
    is_operator = _flag(operator_specs, 'operator_specs')
    return Given(template, parameters, flavors, images, is_operator)


def _owner(context):
    """The context of a caller, whose names are recorded. Raises InvalidRequest."""
    for name in ('project_id', 'user_id'):
        _optional(words.name, getattr(context, name), f'{name} of the caller')
    return context


# Answers.


def _top_group(view):
    """A GroupView as TopGroup."""
    details = _summary(view)
    details.template = view.source.get('template', '')
    details.parameters = json.dumps(view.source.get('parameters') or {})
    details.members = [
        objects.GroupMember(
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
        for member in view.members
    ]
    details.moves = [
        objects.GroupMove(
            path=move.path,
            instance_uuid=move.instance_uuid,
            from_host=move.source or None,
            to_host=move.target,
            reason=move.reason,
        )
        for move in view.moves
    ]
    return details


def _summary(view):
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
