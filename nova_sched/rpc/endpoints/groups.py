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

import oslo_messaging as messaging

from nova_sched import words
from nova_sched.conf import CONF
from nova_sched.engine.groups.reading import Given, ReadingRules
from nova_sched.rpc import groups
from nova_sched.rpc.messages import expected, once


class GroupsEndpoint:
    """The methods return TopGroup objects.

    A ``template`` is YAML or JSON text, or a mapping; ``parameters`` are its values by name,
    ``flavors`` and ``images`` those that it may name, each as it would be written in the template.
    With a ``project_id`` only groups of that project are known. With ``dry_run`` the methods
    return the group as it would be, and change nothing. All methods that take the UUID of a group
    raise GroupNotFound. ``exclusive_levels`` (since 1.1) are the levels at which the caller may
    use `exclusive`; None: all. A policy at another level raises PolicyForbidden.
    """

    target = messaging.Target(namespace='groups', version='1.1')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    def _rules(self):
        return ReadingRules.of(CONF.groups, self._scheduler.groups.levels)

    def _read(self, context, *given, exclusive_levels=None):
        """Returns the Reading of what the caller has given. Raises PolicyForbidden."""
        reading = self._scheduler.groups.read(
            groups.owner(context).project_id, Given(*given), self._rules()
        )
        groups.check_levels(reading.definition, exclusive_levels)
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
    ):
        """Plan all members and claim the plan, or nothing. The group belongs to the project of the
        caller.

        ``ttl``: seconds after which members that are not created yet lose their places, `[groups]
        plan_ttl` by default. Raises TemplateError, or GroupRefused with ``details``.
        """
        read = self._read(
            context, template, parameters, flavors, images, exclusive_levels=exclusive_levels
        )
        view = self._scheduler.groups.create(
            read.definition,
            read.source,
            name=groups.optional(words.name, name, 'name'),
            ttl_s=groups.optional(words.number, ttl, 'ttl'),
            dry_run=groups.flag(dry_run, 'dry_run'),
            context=groups.owner(context),
            requests=read.requests,
        )
        return groups.top_group(view)

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
    ):
        """Replace the definition of a group. Returns the group with the ``moves`` that the caller
        has to make.

        With ``renew`` (since 1.1, true before) the planned claims are held for ``ttl`` more
        seconds; without, until they would end anyway.

        Raises GroupChanged if the group is not at this ``generation``, TemplateError, or
        GroupRefused; then the group stays unchanged.
        """
        uuid = words.uuid(uuid, 'uuid')
        read = self._read(
            context, template, parameters, flavors, images, exclusive_levels=exclusive_levels
        )
        view = self._scheduler.groups.update(
            uuid,
            read.definition,
            read.source,
            generation=groups.optional(words.number, generation, 'generation'),
            dry_run=groups.flag(dry_run, 'dry_run'),
            project_id=groups.optional(words.name, project_id, 'project_id'),
            ttl_s=groups.optional(words.number, ttl, 'ttl'),
            context=groups.owner(context),
            requests=read.requests,
            renew=groups.flag(renew, 'renew'),
        )
        return groups.top_group(view)

    @expected
    def delete(self, context, uuid, generation=None, dry_run=False, project_id=None):
        """End the planned claims of a group. The claims of its servers end when the servers are
        deleted.

        Returns None, or with ``dry_run`` the group as it would be left. Raises GroupChanged.
        """
        view = self._scheduler.groups.delete(
            words.uuid(uuid, 'uuid'),
            generation=groups.optional(words.number, generation, 'generation'),
            dry_run=groups.flag(dry_run, 'dry_run'),
            project_id=groups.optional(words.name, project_id, 'project_id'),
        )
        return groups.top_group(view) if dry_run else None

    @expected
    def show(self, context, uuid, project_id=None):
        """A group with its members."""
        project_id = groups.optional(words.name, project_id, 'project_id')
        return groups.top_group(
            self._scheduler.groups.show(words.uuid(uuid, 'uuid'), project_id=project_id)
        )

    @expected
    def list(self, context, project_id=None, name=None, marker=None, limit=None):
        """Groups after the ``marker`` (the UUID of one), oldest first; without members and
        templates."""
        views = self._scheduler.groups.list(
            project_id=groups.optional(words.name, project_id, 'project_id'),
            name=groups.optional(words.name, name, 'name'),
            marker=groups.optional(words.uuid, marker, 'marker'),
            limit=groups.optional(words.number, limit, 'limit'),
        )
        return [groups.summary(view) for view in views]

    @expected
    @once
    def plan(self, context, uuid, project_id=None, replan=False, dry_run=False):
        """A group with its members' places and domains.

        With ``replan``, members without a good place are placed first. Raises GroupRefused.
        """
        view = self._scheduler.groups.plan(
            words.uuid(uuid, 'uuid'),
            project_id=groups.optional(words.name, project_id, 'project_id'),
            replan=groups.flag(replan, 'replan'),
            dry_run=groups.flag(dry_run, 'dry_run'),
        )
        return groups.top_group(view)

    @expected
    def renew(self, context, uuid, ttl=None, project_id=None, dry_run=False):
        """Hold the places of members that are not created yet for ``ttl`` more seconds from
        now."""
        view = self._scheduler.groups.renew(
            words.uuid(uuid, 'uuid'),
            ttl_s=groups.optional(words.number, ttl, 'ttl'),
            project_id=groups.optional(words.name, project_id, 'project_id'),
            dry_run=groups.flag(dry_run, 'dry_run'),
        )
        return groups.top_group(view)

    @expected
    def topology(self, context):
        """The number of ``domains`` of each level, and ``warnings`` about nodes that report none
        of their domains."""
        return self._scheduler.groups.topology()

    @expected
    @once
    def validate(self, context, template, parameters=None, flavors=None, images=None):
        """The account of a template, as ``Definition.summary`` returns it; nothing is planned.

        ``contradiction``: the policies that collide on any set of hosts, as text, or None. It
        assumes that levels nest as they do on the present hosts. Raises TemplateError.
        """
        given = Given(template, parameters, flavors, images)
        project_id = groups.owner(context).project_id
        return self._scheduler.groups.account(project_id, given, self._rules())
