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
"""The resource by which a stack registers its servers as one group. It provides the scheduler
hints of each server."""

import hashlib
import json

from heat.common import exception
from heat.engine import attributes, constraints, properties, resource
from heat.engine import stack as stacks
from heat.engine.plugins import (
    top_group_client,
    top_group_members,
    top_group_types,
)
from heat.engine.plugins.top_group_contents import wrong
from oslo_log import log as logging

LOG = logging.getLogger(__name__)
DIGEST, PATHS = 'digest', 'paths'  # keys of the resource data


class TopGroupResource(resource.Resource):
    """All servers of the stack that take their scheduler hints from here. They are placed before
    the first one exists.

    The servers are read from their own resources. When this resource is created, they are planned
    and claimed on their hosts. Each server then asks for its place by its hints::

        scheduler_hints: {get_attr: [top_group, hints, web]}

    An update of the stack sends the whole group to the scheduler again.
    """

    PROPERTIES = (HOLD,) = ('hold',)
    ATTRIBUTES = (HINTS, MEMBERS, PLAN, MOVES) = ('hints', 'members', 'plan', 'moves')

    properties_schema = {
        HOLD: properties.Schema(
            properties.Schema.INTEGER,
            'Seconds for which hosts are held for servers that do not exist yet; by default, '
            'the timeout of the stack.',
            constraints=[constraints.Range(min=1)],
            update_allowed=True,
        ),
    }
    attributes_schema = {
        HINTS: attributes.Schema(
            'Scheduler hints of each server, by the names of resources; those of a nested stack, '
            'or of a resource group of nested stacks, are under its name.',
            cache_mode=attributes.Schema.CACHE_NONE,
            type=attributes.Schema.MAP,
        ),
        MEMBERS: attributes.Schema(
            'State of each member by its path: planned, pending, confirmed or unplaced.',
            cache_mode=attributes.Schema.CACHE_NONE,
            type=attributes.Schema.MAP,
        ),
        PLAN: attributes.Schema(
            'Domains of each member by its path: their names by level.',
            cache_mode=attributes.Schema.CACHE_NONE,
            type=attributes.Schema.MAP,
        ),
        MOVES: attributes.Schema(
            'Servers that have to move to another host to keep the policies, with the reasons.',
            cache_mode=attributes.Schema.CACHE_NONE,
            type=attributes.Schema.LIST,
        ),
    }
    # An incomplete group is completed in place: with another UUID all its servers would be
    # replaced.
    always_replace_on_check_failed = False

    def add_dependencies(self, deps):
        super().add_dependencies(deps)
        for name in sorted(top_group_members.needed(self)):
            deps += (self, self.stack[name])

    def validate(self):
        super().validate()
        if not top_group_members.StackReader(self, strict=False).paths:
            raise wrong(f'No server has the hints of {self.name}; see its attribute hints.')

    def handle_create(self):
        if not self.stack.convergence:
            raise exception.NotSupported(feature='A placement group without convergence_engine')
        return self._read()

    def check_create_complete(self, read):
        try:
            group = self._api().create(read.body, self.physical_resource_name(), self._hold_s())
        except top_group_client.Busy:
            return False
        self.resource_id_set(group['uuid'])
        self._keep(read)
        return True

    def _needs_update(self, *args, **kwargs):
        # The relevant data is in other resources, so each update reads them.
        return super()._needs_update(*args, **kwargs) or True

    def needs_replace_failed(self):
        return self.resource_id is None

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        self.properties = json_snippet.properties(self.properties_schema, self.context)
        return self._read()

    def check_update_complete(self, read):
        try:
            self._revise(read)
        except top_group_client.Busy:
            return False
        return True

    def check_delete_complete(self, _none):
        try:
            if self.resource_id is not None:
                self._api().delete(self.resource_id)
        except top_group_client.Busy:
            return False
        return True

    def handle_delete(self):
        """The deletion is done by check_delete_complete, which Heat calls again if needed."""

    def handle_check(self):
        group = self._api().show(self.resource_id)
        if group['status'] == 'incomplete':
            lost = [member['path'] for member in group['members'] if member['state'] == 'unplaced']
            raise exception.Error(f'These members have no host: {", ".join(lost)}')

    def follow(self, name, indices):
        """Update the group: a scaling group of the stack will have members with these indices."""
        if name in json.loads(self.data().get(PATHS) or '{}'):
            self._revise(self._read({name: indices}))

    def get_attribute(self, key, *path):
        if key == self.HINTS:
            value = top_group_members.selected(self._hints(), (key, *path))
            if value is None and self.resource_id is not None:
                raise exception.InvalidTemplateAttribute(
                    resource=self.name, key='.'.join(map(str, (key, *path)))
                )
            return value
        return super().get_attribute(key, *path)

    def _resolve_attribute(self, name):
        if self.resource_id is None:
            return None
        if name == self.HINTS:
            return self._hints()
        if name == self.PLAN:
            return {
                member['path']: member['domains']
                for member in self._api().plan(self.resource_id)['members']
            }
        group = self._api().show(self.resource_id)
        if name == self.MEMBERS:
            return {member['path']: member['state'] for member in group['members']}
        return group['moves']

    def _show_resource(self):
        return self._api().show(self.resource_id)

    def _hints(self):
        return top_group_members.hints(
            json.loads(self.data().get(PATHS) or '{}'), self.resource_id
        )

    def _api(self):
        return top_group_client.SchedulerApi(self.context)

    def _hold_s(self):
        return self.properties[self.HOLD] or int(self.stack.timeout_secs())

    def _read(self, indices=None):
        """Read the current servers of the stack."""
        stack = None
        existing = {}
        if self.resource_id is not None:
            stack = stacks.Stack.load(self.context, self.stack.id)
            existing = {
                name: resource
                for name, resource in stack.resources.items()
                if resource.resource_id is not None
            }
        reader = top_group_members.StackReader(self, existing, indices)
        return StackReading(
            {
                'template': reader.template,
                'flavors': top_group_client.flavors(self.client_plugin('nova'), reader.flavors),
                'images': top_group_client.images(self.client_plugin('glance'), reader.images),
            },
            reader.paths,
        )

    def _revise(self, read):
        """Send the definition to the scheduler, if it has changed."""
        if read.digest != self.data().get(DIGEST):
            group = self._api().replace(self.resource_id, read.body)
            self._keep(read)
            for move in group.get('moves') or ():
                LOG.warning(
                    'Member %s has to move to another host: %s', move['path'], move['reason']
                )
        self._api().renew(self.resource_id, self._hold_s())

    def _keep(self, read):
        self.data_set(DIGEST, read.digest)
        self.data_set(PATHS, json.dumps(read.paths))


class StackReading:
    """One reading of a stack: the ``body`` to send, the ``paths`` of the servers, a ``digest`` of
    both."""

    def __init__(self, body, paths):
        self.body = body
        self.paths = paths
        text = json.dumps([body, paths], sort_keys=True)
        self.digest = hashlib.sha256(text.encode()).hexdigest()


def resource_mapping():
    """Return the resource types of this plug-in, for Heat."""
    return {
        'OS::NovaSched::TopGroup': TopGroupResource,
        'OS::NovaSched::Group': top_group_types.GroupDeclaration,
        'OS::NovaSched::Relation': top_group_types.RelationDeclaration,
        'OS::NovaSched::AutoScalingGroup': top_group_types.AutoScalingGroup,
    }
