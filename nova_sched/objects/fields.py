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
"""Field types: those of oslo.versionedobjects, and four additional ones of Nova's objects."""
# ruff: noqa: F401 - the classes are imported for use by other modules

import json
import re
import uuid

from oslo_versionedobjects import fields
from oslo_versionedobjects.fields import (
    BaseEnumField,
    BooleanField,
    DateTimeField,
    DictOfIntegersField,
    DictOfListOfStringsField,
    DictOfNullableStringsField,
    DictOfStringsField,
    DictProxyField,
    FlexibleBooleanField,
    FloatField,
    IntegerField,
    IPAddressField,
    IPV4AddressField,
    IPV6AddressField,
    ListOfDictOfNullableStringsField,
    ListOfIntegersField,
    ListOfListsOfStringsField,
    ListOfObjectsField,
    ListOfSetsOfIntegersField,
    ListOfStringsField,
    ObjectField,
    SensitiveStringField,
    SetOfIntegersField,
    SetOfStringsField,
    StringField,
    VersionPredicateField,
)


class UUID(fields.UUID):
    """A UUID as text. Unlike oslo's type it refuses invalid values, and is fast and
    thread-safe."""

    FORM = re.compile(fields.UUID.PATTERN)

    def coerce(self, obj, attr, value):
        if isinstance(value, uuid.UUID):
            return str(value)
        if isinstance(value, str) and self.FORM.fullmatch(value):
            return value
        raise ValueError('a UUID is required')


class UUIDField(fields.UUIDField):
    AUTO_TYPE = UUID()


class ListOfUUIDField(fields.ListOfUUIDField):
    AUTO_TYPE = fields.List(UUID())


class ResourceClass(fields.StringPattern):
    """The name of a resource class, such as VCPU or CUSTOM_GPU."""

    PATTERN = r'^[A-Z0-9_]+$'
    FORM = re.compile(PATTERN)

    def coerce(self, obj, attr, value):
        if isinstance(value, str) and self.FORM.fullmatch(value):
            return value
        raise ValueError('a resource class is required: capitals, digits and underscores')


class ResourceClassField(fields.AutoTypedField):
    AUTO_TYPE = ResourceClass()


class NetworkModel(fields.FieldType):
    """Network information of an instance, kept as JSON text: only compute nodes read it."""

    def coerce(self, obj, attr, value):
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return json.dumps(value)
        raise ValueError('network information is required, as a list or as JSON text')


class NetworkModelField(fields.AutoTypedField):
    AUTO_TYPE = NetworkModel()
