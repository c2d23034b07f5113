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

"""Reads the errors of the scheduler's REST API.

Uses nothing of Heat: the plug-in for the `openstack` client reads them by this module, too.
"""


def fault(answer):
    """Return the first error of an answer, in the form of OpenStack's guidelines; empty if there
    is none."""
    try:
        return answer.json()['errors'][0]
    except (ValueError, LookupError, TypeError):
        return {}


def words(answer):
    """Return the error as one sentence."""
    error = fault(answer)
    where = f' ({error["where"]})' if error.get('where') else ''
    detail = error.get('detail') or f'HTTP {answer.status_code}'
    return (
        f'The scheduler refuses{where}: {detail}'
        if answer.status_code < 500
        else f'The scheduler fails: {detail}'
    )
