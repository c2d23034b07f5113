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
"""What the caller of a refused request is told: it may pass the text on to a tenant."""

from nova_sched import errors

RULES, ALL = 'rules', 'all'  # values of [explain] tell_callers


def for_caller(refusal, request_id, tell):
    """The NoValidHost for the caller. Unless ``tell`` is ALL, it has no facts about the cloud,
    only the id by which an operator finds them."""
    if tell == ALL or refusal.for_tenants == refusal.reason:
        return refusal
    return errors.NoValidHost(with_id(refusal.for_tenants, request_id))


def with_id(text, request_id):
    """The text, followed by the id of the request; None: the caller has sent no id."""
    if not request_id:
        return text
    return f'{text} Operators find the details under {request_id}.'
