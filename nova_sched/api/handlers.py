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

"""The operations of the API, from a call to a response: groups, and the order of hosts for another
scheduler."""

import contextlib
import json

import werkzeug
from oslo_middleware import Healthcheck

from nova_sched import errors
from nova_sched.api import views
from nova_sched.api.document import DOCUMENT, JSON
from nova_sched.api.policies import Owner
from nova_sched.groups import template

SCHEMA = 'application/schema+json'
UPDATED = '2026-11-21T00:00:00Z'
MAX_READS = 3  # of `[api] max_limit` groups, to find those of a status for one page


class VersionHandlers:
    """The version and health of the service; no token is needed. ``readiness``: a Readiness."""

    def __init__(self, conf, readiness):
        self._health = Healthcheck(None, conf)
        self._readiness = readiness

    def list_versions(self, call):
        return reply({'versions': [_version(call)]})

    def show_version(self, call):
        return reply({'version': _version(call)})

    show_version_root = show_version

    def show_document(self, call):
        return reply({**DOCUMENT, 'servers': [{'url': call.root or '/'}]})

    def show_schema(self, call):
        return reply(template.schema(), media=SCHEMA)

    def show_health(self, call):
        return self._health

    def show_live(self, call):
        return reply({'live': True})

    def show_ready(self, call):
        reason = self._readiness.reason()
        return reply({'ready': not reason, 'reason': reason}, 503 if reason else 200)


def _version(call):
    number = DOCUMENT['info']['version']
    return {
        'id': f'v{number}',
        'status': 'CURRENT',
        'version': '',
        'min_version': '',
        'updated': UPDATED,
        'links': [
            {'rel': 'self', 'href': f'{call.root}/v1/'},
            {'rel': 'describedby', 'type': JSON, 'href': f'{call.root}/v1/openapi.json'},
        ],
    }


class GroupHandlers:
    """Placement groups: each method checks the policy, calls the backend and returns its answer as
    JSON.

    ``max_limit``: groups in a page.
    """

    def __init__(self, backend, policy, max_limit):
        self._backend = backend
        self._policy = policy
        self._max_limit = max_limit

    def create_group(self, call):
        context = call.context
        self._policy.demand(context, 'groups:create')
        rights = self._rights(context)
        named = {'name': call.body.get('name') or call.query.get('name')}
        with self._refusals(context):
            group = self._backend.create(
                **{**call.body, **named, **rights}, dry_run=call.dry_run, context=context
            )
        if call.dry_run:
            return self._shown(call, group)
        answer = self._shown(call, group, status=201)
        answer.headers['Location'] = f'{call.root}/v1/groups/{group.uuid}'
        return answer

    def list_groups(self, call):
        query, own = call.query, call.context.project_id
        wanted = query.get('project_id', None if query.get('all_projects') else own)
        self._policy.demand(call.context, 'groups:list')
        if wanted is None or wanted != own:
            owner = Owner(wanted or own, call.context.user_id)
            self._policy.demand(call.context, 'groups:list:all_projects', owner)
        limit = min(query.get('limit', self._max_limit), self._max_limit)
        groups, marker = self._page(call, wanted, limit)
        links = [] if marker is None else [call.following(marker, limit)]
        return reply(
            {'groups': [views.brief(group, call.root) for group in groups], 'links': links}
        )

    def _page(self, call, project_id, limit):
        """The groups of a page, and the marker of the next page; None if it is the last one."""
        query, groups = call.query, []
        status, marker = query.get('status'), query.get('marker')
        marker = marker and marker.lower()
        reads, size = (1, limit + 1) if status is None else (MAX_READS, self._max_limit)
        for _ in range(reads):
            try:
                more = self._backend.list(
                    project_id=project_id,
                    name=query.get('name'),
                    marker=marker,
                    limit=size,
                    context=call.context,
                )
            except errors.NotFound:
                raise errors.InvalidRequest('marker', f'there is no group {marker}') from None
            groups += [group for group in more if status in (None, group.status)]
            if len(groups) > limit:
                return groups[:limit], groups[limit - 1].uuid
            if len(more) < size:
                return groups, None
            marker = more[-1].uuid
        return groups, marker

    def validate_group(self, call):
        self._policy.demand(call.context, 'groups:validate')
        specs = self._operator_specs(call.context)
        return reply(dict(self._backend.validate(**call.body, **specs, context=call.context)))

    def show_group(self, call):
        return self._shown(call, self._known(call))

    def update_group(self, call):
        seen = call.seen_generations(needed=True)
        group = self._known(call, 'update')
        # An update holds the planned hosts for longer, as a renewal does.
        if 'ttl' in call.body:
            self._policy.demand(call.context, 'groups:renew', group)
        with self._refusals(call.context, group):
            changed = self._backend.update(
                group.uuid,
                **call.body,
                generation=_agreed(group, seen),
                dry_run=call.dry_run,
                project_id=group.project_id,
                context=call.context,
                renew=self._policy.allows(call.context, 'groups:renew', group),
                **self._rights(call.context, group),
            )
        return self._shown(call, changed)

    def delete_group(self, call):
        seen = call.seen_generations(needed=False)
        group = self._known(call, 'delete')
        left = self._backend.delete(
            group.uuid,
            generation=_agreed(group, seen),
            dry_run=call.dry_run,
            project_id=group.project_id,
            context=call.context,
        )
        return self._shown(call, left) if call.dry_run else reply(None, status=204)

    def show_plan(self, call):
        group = self._known(call)
        planned = self._backend.plan(group.uuid, group.project_id, context=call.context)
        return self._shown(call, planned, views.plan)

    def renew_plan(self, call):
        group = self._known(call, 'replan')
        with self._refusals(call.context, group):
            planned = self._backend.plan(
                group.uuid,
                group.project_id,
                replan=True,
                dry_run=call.dry_run,
                context=call.context,
            )
        return self._shown(call, planned, views.plan)

    def renew_group(self, call):
        group = self._known(call, 'renew')
        renewed = self._backend.renew(
            group.uuid,
            call.body.get('ttl'),
            group.project_id,
            dry_run=call.dry_run,
            context=call.context,
        )
        return self._shown(call, renewed)

    @contextlib.contextmanager
    def _refusals(self, context, owner=None):
        """Raise a GroupRefused of the block without capacity, if the caller may not see hosts."""
        try:
            yield
        except errors.GroupRefused as error:
            if self._policy.allows(context, 'groups:show:hosts', owner):
                raise
            raise views.without_capacity(error) from None

    def _rights(self, context, owner=None):
        """What the caller may write in a template, as arguments; none for everything."""
        specs = self._operator_specs(context, owner)
        if self._policy.allows(context, 'groups:exclusive:domain', owner):
            return specs
        is_allowed = self._policy.allows(context, 'groups:exclusive:host', owner)
        return {**specs, 'exclusive_levels': ['host'] if is_allowed else []}

    def _operator_specs(self, context, owner=None):
        is_allowed = self._policy.allows(context, 'groups:operator_specs', owner)
        return {} if is_allowed else {'operator_specs': False}

    def _known(self, call, name=None):
        """The group of the address, if the caller may see it and may do this operation.

        Raise Forbidden. Raise GroupNotFound also for a group of another project.
        """
        uuid = str(call.request.view_args['uuid'])
        group = self._backend.show(uuid, context=call.context)
        if not self._policy.allows(call.context, 'groups:show', group):
            raise errors.GroupNotFound(uuid)
        if name:
            self._policy.demand(call.context, f'groups:{name}', group)
        return group

    def _shown(self, call, group, view=views.whole, status=200):
        """A view of a group, or 304 if the caller has it already. A dry run has no tag."""
        with_hosts = self._policy.allows(call.context, 'groups:show:hosts', group)
        body = view(group, call.root, with_hosts)
        if group.dry_run:
            return reply(body, status)
        tag = views.tag(body)
        if call.request.method in ('GET', 'HEAD') and call.has(tag):
            answer = reply(None, 304)
        else:
            answer = reply(body, status)
        answer.set_etag(tag)
        return answer


def _agreed(group, seen):
    """The generation that a change is based on, None for any. Raise GroupChanged."""
    if seen is None:
        return None
    if group.generation in seen:
        return group.generation
    raise errors.GroupChanged(group.uuid, max(seen, default=None), group.generation)


def reply(body, status=200, media=JSON):
    """A response with or without a JSON document."""
    if body is None:
        answer = werkzeug.Response(status=status)
        del answer.headers['Content-Type']
    else:
        answer = werkzeug.Response(json.dumps(body), status, content_type=media)
    return answer


# Flags of a body, and the check of the request that each one stands for.
CHECKS = {'rebuild': 'rebuild', 'resize': 'resize', 'live': 'live_migrate'}


class ExternalSchedulerHandlers:
    """``rank`` is `rank_hosts` of a client of the RPC namespace `explain` that waits ``timeout_s``
    seconds."""

    def __init__(self, rank, policy, timeout_s):
        self._rank, self._policy, self._timeout_s = rank, policy, timeout_s

    def rank_hosts(self, call):
        context, body = call.context, call.body
        self._policy.demand(context, 'external_scheduler')
        flags = [check for flag, check in CHECKS.items() if body.get(flag)]
        if len(flags) > 1:
            raise errors.InvalidRequest('body', f'it cannot be for {" and ".join(flags)} at once')
        pairs = [(host['host'], host.get('hypervisor_hostname')) for host in body['hosts']]
        try:
            ranked = self._rank(
                spec_obj=body['spec'],
                hosts=pairs,
                weights=body.get('weights') or {},
                check_type=flags[0] if flags else None,
                context=context,
            )
        except (errors.NoAnswer, errors.Outdated):
            raise errors.DeadlinePassed('The order of the hosts', self._timeout_s) from None
        return reply({'hosts': ranked})
