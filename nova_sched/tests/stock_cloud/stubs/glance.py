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
"""Glance: images without contents. Snapshots are added, and deleted again."""

import uuid

from nova_sched.tests.stock_cloud.stubs.answers import Answer, Request, stamp, versions

# Two that any server may be built and rebuilt from.
FIRST, SECOND = (
    '11111111-1111-4111-8111-111111111111',
    '22222222-2222-4222-8222-222222222222',
)
FIELDS = (
    'id name status visibility container_format disk_format size virtual_size checksum min_disk '
    'min_ram protected owner created_at updated_at tags os_hidden self file schema locations '
    'direct_url'
).split()


class Glance:
    """``images`` are the images by id, as the API shows them."""

    def __init__(self, url: str):
        self._url = url
        self.images = {one: _image(one, {'name': one}) for one in (FIRST, SECOND)}

    def answer(self, request: Request) -> Answer | None:
        match request.method, *request.path:
            case 'GET', *path if not path:
                return versions(f'{self._url}/v2/', id='v2.16')
            case 'GET', 'v2', 'images':
                return Answer(200, {'images': list(self.images.values()), 'first': '/v2/images'})
            case 'POST', 'v2', 'images':
                made = request.body.get('id') or str(uuid.uuid4())
                self.images[made] = _image(made, request.body)
                return Answer(201, self.images[made])
            case 'GET', 'v2', 'schemas', name:
                return Answer(200, _schema(name))
            case method, 'v2', 'images', name:
                return self._one(method, name, request.body)
            case 'PUT' | 'GET', 'v2', 'images', name, 'file':
                return Answer(204)
        return None

    def _one(self, method: str, name: str, body: object) -> Answer | None:
        if name not in self.images:
            return Answer(404, {'message': f'no image {name}'})
        if method == 'DELETE':
            del self.images[name]
            return Answer(204)
        if method == 'PATCH':
            changes = {
                one['path'].strip('/'): one['value'] for one in body if one['op'] != 'remove'
            }
            self.images[name].update(changes)
        return Answer(200, self.images[name])


def _image(made: str, words: dict) -> dict[str, object]:
    return {
        'status': 'active',
        'visibility': 'public',
        'container_format': 'bare',
        'disk_format': 'raw',
        'size': 1048576,
        'virtual_size': None,
        'checksum': '0' * 32,
        'min_disk': 0,
        'min_ram': 0,
        'protected': False,
        'owner': None,
        'created_at': stamp(),
        'updated_at': stamp(),
        'tags': [],
        'os_hidden': False,
        'self': f'/v2/images/{made}',
        'file': f'/v2/images/{made}/file',
        'schema': '/v2/schemas/image',
        **words,
        'id': made,
    }


def _schema(name: str) -> dict[str, object]:
    return {
        'name': name,
        'properties': {field: {} for field in FIELDS},
        'additionalProperties': {'type': 'string'},
    }
