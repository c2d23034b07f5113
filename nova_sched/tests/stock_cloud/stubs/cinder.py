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
"""Cinder: a cloud without volumes."""

from nova_sched.tests.stock_cloud.stubs.answers import Answer, Request, versions


class Cinder:
    def __init__(self, url: str):
        self._url = url

    def answer(self, request: Request) -> Answer | None:
        match request.method, *request.path:
            case 'GET', *path if path in ([], ['v3']):
                return versions(f'{self._url}/v3/', id='v3.0', version='3.71', min_version='3.0')
            case 'GET', *_, 'volumes' | 'detail':
                return Answer(200, {'volumes': []})
        return None
