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
"""The unified limits of Keystone, through oslo.limit."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException
from oslo_limit import exception, limit

from nova_sched import errors
from nova_sched.conf import quota
from nova_sched.logs import first_line

TIMEOUT_S = 10  # seconds for one answer, unless [oslo_limit] timeout is set

# Keystone is unavailable, refuses the service, or returns an invalid answer: oslo.limit takes
# some errors for answers.
AWAY = ClientException, SDKException, exception.SessionInitError, KeyError, json.JSONDecodeError


class KeystoneLimits:
    """Return the limits of a project, when called with its ID. May be called from any thread.

    Raises LimitsUnknown if Keystone does not answer, BadConfig if [oslo_limit] is not valid for
    it.
    """

    def __init__(self, conf: Any) -> None:
        conf.set_default('timeout', TIMEOUT_S, 'oslo_limit')
        self._enforcer: limit.Enforcer | None = None

    def __call__(self, project_id: str) -> 'Registered':
        try:
            return self._asked(project_id)
        except AWAY as error:
            raise errors.LimitsUnknown(
                project_id, first_line(error) or type(error).__name__
            ) from error
        except (ValueError, NotImplementedError) as error:
            why = (
                str(error) or 'Keystone enforces its limits in a way that oslo.limit does not know'
            )
            raise errors.BadConfig('[oslo_limit]', why) from error

    def _asked(self, project_id: str) -> 'Registered':
        if self._enforcer is None:  # two threads may both make one; the later is kept
            self._enforcer = limit.Enforcer(lambda *_: {}, cache=False)
        # None stands for all resources, despite the type annotation.
        registered = self._enforcer.get_registered_limits(None)  # type: ignore[arg-type]
        own = self._enforcer.get_project_limits(project_id, None)  # type: ignore[arg-type]
        return Registered({**quota.PLANS, **dict(registered), **dict(own)})


class Registered(Mapping[str, int]):
    """Limits by resource. As in oslo.limit, an unregistered resource has the limit 0."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = known

    def __getitem__(self, resource: str) -> int:
        return self._known.get(resource, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
