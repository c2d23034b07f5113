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
"""The conditions of a template: names for expressions that are true or false."""

from nova_sched.groups.template.functions import condition


class Conditions:
    """Evaluates a condition when first asked for. ``declared``: the mapping, or None."""

    def __init__(self, scope, declared):
        self._scope = scope
        self._declared = declared.data if declared else {}
        self._known = {}

    def holds(self, value):
        """Returns whether the condition that the value names is true."""
        name = value.data
        if name not in self._known:
            if name not in self._declared:
                raise value.wrong(f'there is no condition {name}')
            self._scope.work.enter(self._declared[name])
            self._known[name] = condition(self._scope, self._declared[name])
            self._scope.work.depth -= 1
        return self._known[name]

    def check(self):
        """Evaluates all conditions, so that errors in unused ones are reported too."""
        for name, value in self._declared.items():
            self.holds(value.holding(name))
