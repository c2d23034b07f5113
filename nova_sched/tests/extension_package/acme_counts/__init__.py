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
"""Counts decisions by project."""

from nova_sched.extension import Extension
from nova_sched.measures import Counter

DECISIONS = Counter('acme_decisions', 'Requests that were answered, by project.', ('project',))
BY_PROJECT = {'type': 'object', 'additionalProperties': {'type': 'integer'}}


class Counts(Extension):
    def begin(self, scheduler):
        from acme_counts import parts

        return parts.CountingPart()

    def measures(self):
        return [DECISIONS]

    def nouns(self):
        return {'decision': ('count decisions', 'acme_counts.parts:VERBS')}

    def document(self):
        content = {'application/json': {'schema': BY_PROJECT}}
        count = {
            'operationId': 'count_decisions',
            'tags': ['decisions'],
            'summary': 'The number of decisions of each project',
            'responses': {'200': {'description': 'The numbers.', 'content': content}},
        }
        return {'paths': {'/v1/decisions': {'get': count}}}

    def policies(self, rule):
        return [rule('decisions:count', 'rule:operator', 'Count decisions.', 'count_decisions')]

    def handlers(self, api):
        from acme_counts import parts

        return {'decisions': parts.Handlers(api)}
