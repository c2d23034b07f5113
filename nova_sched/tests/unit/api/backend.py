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
"""A scheduler for the API's tests: it keeps groups and flavors, places no server, and refuses
what a test asks it to refuse."""

import copy
import datetime
import json

import yaml

from nova_sched import errors, words
from nova_sched.extensions.optimize.rebalance import most_moves, read_goal, read_moves
from nova_sched.extensions.queues.catalogue import checked_flavor
from nova_sched.objects.top_group import GroupMember, GroupMove, TopGroup
from nova_sched.tests.builders import uuid_of

NOON = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC)
TEMPLATE = {
    'heat_template_version': '2021-04-16',
    'resources': {'web': {'type': 'OS::Nova::Server'}},
}


def member(path='web', **fields):
    """A member that is planned on host-1 in rack-1."""
    known = {
        'path': path,
        'state': 'planned',
        'member_uuid': uuid_of(path),
        'instance_uuid': None,
        'host': 'host-1',
        'nodename': 'node-1',
        'compute_node_uuid': uuid_of('node-1'),
        'availability_zone': 'az-1',
        'domains': {'host': 'host-1', 'rack': 'rack-1'},
    }
    return GroupMember(**{**known, **fields})


def group(name='app', **fields):
    """A planned group of one member; `uuid` goes by its name."""
    known = {
        'uuid': uuid_of(name),
        'name': name,
        'project_id': 'red',
        'user_id': 'ann',
        'status': 'planned',
        'generation': 1,
        'serial': 1,
        'template': json.dumps(TEMPLATE),
        'parameters': '{"size": 3}',
        'members': [member()],
        'moves': [],
        'warnings': [],
        'dry_run': False,
        'created_at': NOON,
        'updated_at': NOON,
        'expires_at': NOON + datetime.timedelta(hours=1),
    }
    return TopGroup(**{**known, **fields})


def group_move(**fields):
    known = {
        'path': 'web',
        'instance_uuid': uuid_of('i'),
        'from_host': 'host-1',
        'to_host': 'host-2',
    }
    return GroupMove(**{**known, 'reason': 'anti-affinity', **fields})


class Backend:
    """``groups`` by UUID; ``refusal`` is raised by each method that would change or check
    something."""

    def __init__(self, *groups):
        self.groups = {one.uuid: one for one in groups}
        self.refusal = None
        self.calls = []
        self.contexts = []
        self.levels = self.renews = self.operator_specs = None

    def _asked(self, method, context, **words):
        self.calls.append(
            (method, {name: value for name, value in words.items() if value is not None})
        )
        self.contexts.append(context)

    def _find(self, uuid, project_id, generation=None):
        found = self.groups.get(uuid)
        if found is None or project_id not in (None, found.project_id):
            raise errors.GroupNotFound(uuid)
        if generation not in (None, found.generation):
            raise errors.GroupChanged(uuid, generation, found.generation)
        return found

    def _may(self):
        if self.refusal is not None:
            raise self.refusal

    def _keep(self, made, dry_run):
        made.dry_run = dry_run
        if not dry_run:
            self.groups[made.uuid] = made
        return made

    def create(
        self,
        template,
        name=None,
        dry_run=False,
        context=None,
        exclusive_levels=None,
        operator_specs=True,
        **given,
    ):
        self.levels, self.operator_specs = exclusive_levels, operator_specs
        self._asked('create', context, template=template, name=name, dry_run=dry_run, **given)
        self._may()
        made = group(
            'made',
            uuid=None if dry_run else uuid_of(f'group {len(self.calls)}'),
            project_id=context.project_id,
            user_id=context.user_id,
            template=_text(template),
            parameters=json.dumps(given.get('parameters') or {}),
        )
        made.name = name
        return self._keep(made, dry_run)

    def update(self, uuid, template, generation=None, dry_run=False, project_id=None, context=None,
               exclusive_levels=None, renew=True, operator_specs=True, **given):  # fmt: skip
        self.levels, self.renews = exclusive_levels, renew
        self.operator_specs = operator_specs
        self._asked('update', context, template=template, generation=generation, dry_run=dry_run,
                    project_id=project_id, **given)  # fmt: skip
        self._may()
        old = self._find(uuid, project_id, generation)
        made = group(
            old.name,
            uuid=uuid,
            project_id=old.project_id,
            generation=old.generation + 1,
            serial=old.serial + 1,
            template=_text(template),
            moves=[group_move()],
        )
        return self._keep(made, dry_run)

    def delete(self, uuid, generation=None, dry_run=False, project_id=None, context=None):
        self._asked(
            'delete', context, generation=generation, dry_run=dry_run, project_id=project_id
        )
        self._may()
        found = self._find(uuid, project_id, generation)
        if not dry_run:
            del self.groups[uuid]
            return None
        return group(found.name, uuid=uuid, status='deleting', dry_run=True)

    def show(self, uuid, project_id=None, context=None):
        self._asked('show', context, project_id=project_id)
        return self._find(uuid, project_id)

    def list(self, project_id=None, name=None, marker=None, limit=None, context=None):
        self._asked('list', context, project_id=project_id, name=name, marker=marker, limit=limit)
        self._may()
        known = list(self.groups)
        if marker is not None and marker not in known:
            raise errors.GroupNotFound(marker)
        later = known[known.index(marker) + 1 :] if marker else known
        found = [self.groups[uuid] for uuid in later]
        found = [
            one
            for one in found
            if project_id in (None, one.project_id) and name in (None, one.name)
        ]
        return [_brief(one) for one in found[:limit]]

    def plan(self, uuid, project_id=None, replan=False, dry_run=False, context=None):
        self._asked('plan', context, project_id=project_id, replan=replan, dry_run=dry_run)
        self._may()
        found = copy.deepcopy(self._find(uuid, project_id))
        found.dry_run = dry_run
        return found

    def renew(self, uuid, ttl=None, project_id=None, dry_run=False, context=None):
        self._asked('renew', context, ttl=ttl, project_id=project_id, dry_run=dry_run)
        self._may()
        found = self._find(uuid, project_id)
        found = copy.deepcopy(found) if dry_run else found
        found.dry_run = dry_run
        found.expires_at = NOON + datetime.timedelta(seconds=ttl or 3600)
        return found

    def validate(self, template, context=None, operator_specs=True, **given):
        self.operator_specs = operator_specs
        self._asked('validate', context, template=template, **given)
        self._may()
        _text(template)
        return {'members': ['web'], 'policies': [], 'warnings': [], 'contradiction': None}


def _text(template):
    """The template as text, if it is a mapping. Raise TemplateError."""
    if not isinstance(template, str):
        return json.dumps(template)
    try:
        found = yaml.safe_load(template)
    except yaml.YAMLError as error:
        raise errors.TemplateError('template', None, None, str(error)) from None
    if not isinstance(found, dict) or not found:
        raise errors.TemplateError('template', 1, 1, 'it is no mapping')
    return template


def _brief(one):
    """The group as it stands in a list."""
    told = copy.deepcopy(one)
    for name in ('template', 'parameters', 'members', 'moves'):
        delattr(told, name)
    return told


class Ranker:
    """Puts hosts into the order of their names; ``refusal`` is raised instead."""

    def __init__(self):
        self.calls, self.refusal = [], None

    def rank_hosts(self, **words):
        self.calls.append(words)
        if self.refusal is not None:
            raise self.refusal
        return sorted({host for host, _ in words['hosts']})


PLANNED = {
    'server': uuid_of('server'),
    'source': uuid_of('node-1'),
    'destination': uuid_of('node-2'),
}
PLAN = {
    'servers': 3,
    'hosts': 2,
    'moves': [{**PLANNED, 'source_host': 'host-1', 'destination_host': 'host-2'}],
    'emptied': [{'node': uuid_of('node-1'), 'host': 'host-1'}],
    'before': 0,
    'after': 1,
    'bound': 1,
    'bound_by': 'linear program',
    'is_spent': False,
    'obstacles': [{'rule': 'no room: VCPU', 'hosts': 1, 'server': None, 'host': 'host-2'}],
}


class Planner:
    """Makes the same plan for all goals; ``refusal`` is raised instead."""

    def __init__(self):
        self.calls, self.refusal = [], None

    def plan_moves(self, context=None, **asked):
        self.calls.append(asked)
        if self.refusal is not None:
            raise self.refusal
        read_goal(asked['goal'])
        most_moves(asked['moves'], 3)
        return copy.deepcopy(PLAN)


class Rebalances:
    """Keeps rebalances, each by a name; no move starts. ``refusal`` is raised by each method."""

    def __init__(self, *names):
        self.rows, self.refusal = {}, None
        for name in names:
            self._make(uuid_of(name), [PLANNED])

    def _make(self, uuid, moves):
        self.rows[uuid] = {
            'uuid': uuid,
            'goal': None,
            'periodic': False,
            'state': 'running',
            'created_s': NOON.timestamp(),
            'stopped_s': None,
            'moves': {'waiting': len(moves)},
            'plan': [
                {
                    'uuid': uuid_of(f'move {number}'),
                    **{name: one[name] for name in PLANNED},
                    'state': 'waiting',
                    'why': None,
                    'started_s': None,
                    'changed_s': NOON.timestamp(),
                }
                for number, one in enumerate(moves)
            ],
        }

    def _find(self, uuid):
        if self.refusal is not None:
            raise self.refusal
        if uuid not in self.rows:
            raise errors.RebalanceNotFound(uuid)
        return self.rows[uuid]

    def create(self, uuid, moves, close_s=None, context=None):
        if self.refusal is not None:
            raise self.refusal
        read_moves(moves)
        self._make(uuid, moves)
        return self._find(uuid)

    def list(self, marker=None, limit=None, context=None):
        if marker is not None:
            self._find(marker)
        known = list(self.rows)
        later = known[known.index(marker) + 1 :] if marker else known
        return [
            {name: value for name, value in self.rows[uuid].items() if name != 'plan'}
            for uuid in later[:limit]
        ]

    def show(self, uuid, context=None):
        return self._find(uuid)

    def stop(self, uuid, context=None):
        self._find(uuid).update(state='stopped', stopped_s=NOON.timestamp() + 60)
        return self._find(uuid)


class Manager:
    """A manager of queues: ``flavors`` by name, each with one queue; ``refusal`` is raised by each
    method."""

    def __init__(self, *names):
        rows = ({'name': name, 'vcpus': 1, 'memory_mb': 512} for name in names)
        self.flavors = {row['name']: checked_flavor(row, NOON.timestamp()) for row in rows}
        self.refusal = None
        self.calls = []
        self.contexts = []

    def _asked(self, method, context):
        self.calls.append(method)
        self.contexts.append(context)
        if self.refusal is not None:
            raise self.refusal

    def flavor_list(self, context=None):
        self._asked('flavor_list', context)
        return {'version': 7, 'flavors': [self.flavors[name] for name in sorted(self.flavors)]}

    def flavor_create(self, flavor, context=None):
        self._asked('flavor_create', context)
        made = checked_flavor(flavor, NOON.timestamp())
        if self.flavors.setdefault(made['name'], made) != made:
            raise errors.FlavorExists(made['name'], 'it is another one')
        return made

    def flavor_delete(self, name, context=None):
        self._asked('flavor_delete', context)
        if self.flavors.pop(words.name(name, 'name'), None) is None:
            raise errors.FlavorNotFound(name)

    def facts(self, marker=None, limit=None, context=None):
        self._asked('facts', context)
        known = [f'flavor.{name}' for name in sorted(self.flavors)]
        if marker is not None and marker not in known:
            raise errors.NotFound(f'Queue {marker}')
        later = known[known.index(marker) + 1 :] if marker else known
        return [
            {'name': queue.removeprefix('flavor.'), 'queue': queue, 'ready': 2, 'consumers': None}
            for queue in later[:limit]
        ]
