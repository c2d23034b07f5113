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

"""What the caller of the present request may do, for pages and templates."""

import flask
from werkzeug import exceptions


def context():
    """The caller: a RequestContext."""
    return flask.g.context


def may(policy, rule, project_id=None):
    """Whether the caller has a right (such as `dashboard:hosts`) in a project; None: its own."""
    caller = context()
    return policy.allows(caller, rule, project_id or caller.project_id, caller.user_id)


def demand(policy, rule):
    """Raises Forbidden."""
    if not may(policy, rule):
        raise exceptions.Forbidden(f'The policy nova_sched:{rule} does not allow it.')
