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
"""Access rules of the REST API and of the applications beside it: the rules of oslo.policy with
their defaults, and their enforcement."""

from typing import NamedTuple

from oslo_policy import policy
from werkzeug import exceptions

from nova_sched import errors, extension
from nova_sched.api.document import OPERATIONS

SERVICE = 'nova_sched'
EVERYWHERE = ['system', 'project']
MEMBER, READER = 'rule:project_member_or_admin', 'rule:project_reader_or_admin'
ROLES = [
    policy.RuleDefault('admin', 'role:admin', 'An operator of the cloud.'),
    policy.RuleDefault(
        'system_reader', 'role:reader and system_scope:all', 'A reader of the whole cloud.'
    ),
    policy.RuleDefault(
        'operator',
        'rule:admin or rule:system_reader',
        'A caller that sees the resources of all projects.',
    ),
    policy.RuleDefault(
        'project_member_or_admin',
        'rule:admin or (role:member and project_id:%(project_id)s)',
        'A caller that may change groups of a project.',
    ),
    policy.RuleDefault(
        'project_reader_or_admin',
        'rule:operator or (role:reader and project_id:%(project_id)s)',
        'A caller that may read groups of a project.',
    ),
    policy.RuleDefault(
        'anybody',
        'rule:admin or role:member or role:reader',
        'A caller with any role in any project.',
    ),
]


def rule(name, default, description, *operations, scopes=EVERYWHERE):
    """A rule of this API; ``operations`` are the operations of the document that check it, or
    pairs of a method and a path."""
    return policy.DocumentedRuleDefault(
        name=f'{SERVICE}:{name}',
        check_str=default,
        scope_types=scopes,
        description=description,
        operations=[
            {'method': operation[0], 'path': operation[1]}
            if isinstance(operation, tuple)
            else {
                'path': OPERATIONS[operation].path,
                'method': OPERATIONS[operation].method.upper(),
            }
            for operation in operations
        ],
    )


RULES = [
    rule(
        'groups:create',
        MEMBER,
        "Create a group in the caller's project: hold hosts for servers that do not exist yet.",
        'create_group',
        scopes=['project'],
    ),
    rule('groups:validate', READER, 'Check a template.', 'validate_group'),
    rule(
        'groups:list',
        READER,
        "List the groups of the caller's project.",
        'list_groups',
    ),
    rule(
        'groups:list:all_projects',
        'rule:operator',
        'List the groups of other projects.',
        'list_groups',
    ),
    rule(
        'groups:show',
        READER,
        'See a group and its plan. A caller without this right gets 404.',
        'show_group',
        'show_plan',
    ),
    rule(
        'groups:show:hosts',
        'rule:operator',
        'See the names of hosts, in addition to those of wider domains, wherever a '
        'group is shown.',
        *(name for name, operation in OPERATIONS.items() if operation.tells_hosts),
    ),
    rule('groups:update', MEMBER, 'Replace the definition of a group.', 'update_group'),
    rule(
        'groups:replan',
        MEMBER,
        'Find places for members that have none.',
        'renew_plan',
    ),
    rule(
        'groups:renew',
        MEMBER,
        'Hold the planned hosts for longer. A caller without this right can update a group, '
        'and its planned hosts are held as long as before.',
        'renew_group',
        'update_group',
    ),
    rule(
        'groups:exclusive:host',
        'rule:admin',
        'Use the policy `exclusive` at the level `host`, which closes hosts to other servers.',
        'create_group',
        'update_group',
    ),
    rule(
        'groups:exclusive:domain',
        'rule:admin',
        'Use the policy `exclusive` at any level, which closes whole racks or zones to other '
        'servers.',
        'create_group',
        'update_group',
    ),
    rule(
        'groups:operator_specs',
        'rule:admin',
        'Write extra specs of the scopes `capabilities` and `aggregate_instance_extra_specs`, and '
        'those without a scope, into the flavors of a template.',
        'create_group',
        'validate_group',
        'update_group',
    ),
    rule(
        'groups:any_rate',
        'rule:admin',
        'Ask for plans more often than `[api] plan_rate`.',
        'create_group',
        'validate_group',
        'update_group',
        'renew_plan',
        'renew_group',
    ),
    rule('groups:delete', MEMBER, 'Delete a group.', 'delete_group'),
    rule(
        'external_scheduler',
        'rule:operator',
        'Have hosts filtered and ordered for a request of another scheduler.',
        'rank_hosts',
    ),
]


def list_rules():
    """All rules, with those of the extensions, for the generators of oslo.policy."""
    known = {policy_rule.name: policy_rule for policy_rule in (*ROLES, *RULES)}
    for _, added in extension.offered(list, 'policies', rule):
        for policy_rule in added:
            known.setdefault(policy_rule.name, policy_rule)
    return list(known.values())


def enforcer(conf=None):
    """An enforcer of these rules; the operator's policy file overrides them."""
    if conf is None:  # as oslo.policy's own commands do
        from nova_sched.conf import CONF as conf  # noqa: N811
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(list_rules())
    return enforcer


def _check_file(conf):
    """Raise BadConfig if the policy file cannot be read; only the default one may be missing."""
    name = conf.oslo_policy.policy_file
    path = conf.find_file(name)
    try:
        if path is not None:
            with open(path, 'rb') as opened:
                opened.read(1)
        elif conf.get_location('policy_file', 'oslo_policy').location.is_user_controlled:
            raise errors.BadConfig('[oslo_policy] policy_file', f'there is no file {name}')
    except OSError as error:
        why = f'{path} cannot be read: {error.strerror}'
        raise errors.BadConfig('[oslo_policy] policy_file', why) from None


class Owner(NamedTuple):
    """Whose a resource is. A group and the context of a caller have the same fields."""

    project_id: str | None
    user_id: str | None


class AccessPolicy:
    """The rights of a caller. Rules are named by the end of their name, such as `groups:create`.
    Raises BadConfig."""

    def __init__(self, conf):
        self._enforcer = enforcer(conf)
        _check_file(conf)
        try:
            self._enforcer.load_rules()
            self._enforcer.check_rules(raise_on_violation=True)
        except (OSError, ValueError, policy.InvalidDefinitionError) as error:
            raise errors.BadConfig('[oslo_policy] policy_file', str(error)) from None

    def allows(self, context, name, owner=None):
        """Whether the caller may do this to a resource of that Owner; None: to its own."""
        owner = context if owner is None else owner
        target = {'project_id': owner.project_id, 'user_id': owner.user_id}
        return bool(self._enforcer.enforce(f'{SERVICE}:{name}', target, context))

    def demand(self, context, name, owner=None):
        """Raise Forbidden if ``allows`` returns False."""
        if not self.allows(context, name, owner):
            raise exceptions.Forbidden(f'The policy {SERVICE}:{name} does not allow it.')
