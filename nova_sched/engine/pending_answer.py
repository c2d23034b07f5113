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
"""An order that the engine decides while its caller does something else."""

from nova_sched import errors
from nova_sched.engine.groups.member_resolver import ReplanRequired


class LookRequired(Exception):
    """No host was found, but hosts may have changed: ``refusal`` (NoValidHost) stands only if none
    is found after a look at them."""

    def __init__(self, refusal):
        super().__init__(str(refusal))
        self.refusal = refusal


class PendingAnswer:
    """One order in the engine. Its ``future`` ends when the loop has decided it.

    ``replan`` decides the order of this request again, after the group of its member was replanned
    for it. ``look`` gets a refusal, looks at the hosts, and decides the order again. Both take
    time, and happen in ``result``.
    """

    def __init__(self, future, replan, look=None):
        self.future = future
        self._replan, self._look = replan, look

    def waits(self):
        """Whether ``result`` would wait now."""
        if not self.future.done():
            return True
        return isinstance(self.future.exception(), ReplanRequired | LookRequired)

    def result(self, told=lambda refusal: refusal):
        """A list of Selected for each request: the chosen host, then alternates. Raises
        NoValidHost, as ``told`` returns it."""
        try:
            try:
                return self.future.result()
            except (ReplanRequired, LookRequired) as error:
                required = error
            if isinstance(required, LookRequired):
                return self._look(required.refusal)
            return self._replan(required.request)
        except errors.NoValidHost as refusal:
            raise told(refusal) from None
