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

"""Images as the image service describes them."""

from nova_sched import errors
from nova_sched.objects import base, fields, image_props, object_io


@base.register
class ImageMeta(base.NovaObject):
    """One image: sizes in bytes, min_ram MiB, min_disk GiB."""

    VERSION = '1.8'

    fields = {
        'id': fields.UUIDField(),
        'name': fields.StringField(),
        'status': fields.StringField(),
        'visibility': fields.StringField(),
        'protected': fields.FlexibleBooleanField(),
        'checksum': fields.StringField(),
        'owner': fields.StringField(),
        'size': fields.IntegerField(),
        'virtual_size': fields.IntegerField(),
        'container_format': fields.StringField(),
        'disk_format': fields.StringField(),
        'created_at': fields.DateTimeField(nullable=True),
        'updated_at': fields.DateTimeField(nullable=True),
        'tags': fields.ListOfStringsField(),
        'direct_url': fields.StringField(),
        'min_ram': fields.IntegerField(),
        'min_disk': fields.IntegerField(),
        'properties': fields.ObjectField('ImageMetaProps'),
    }

    @classmethod
    def from_dict(cls, image):
        """Returns the image for a plain dict in the image service's form; unknown keys are left
        out.

        Raises MalformedObject for an invalid value.
        """
        data = {
            name: image[name]
            for name, field in cls.fields.items()
            if name in image and (field.nullable or image[name] is not None)
        }
        properties = image.get('properties') or {}
        if not isinstance(properties, dict):
            raise errors.MalformedObject('ImageMeta.properties', 'a dict is required')
        data['properties'] = image_props.ImageMetaProps.from_dict(properties)
        return object_io.read(object_io.primitive('ImageMeta', data))
