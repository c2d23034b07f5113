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
"""Converts a claim to plain values that JSON has, and back."""

import dataclasses
from typing import Any

from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.objects.claim import Claim, Resizing

NAMES = tuple(field.name for field in dataclasses.fields(Claim))
# The values that most claims have; they are not written.
USUAL: dict[str, Any] = {
    'parts': None,
    'counted': False,
    'image_properties': {},
    'group_uuid': None,
    'expires_s': None,
    'move': None,
    'resizing': None,
    'top_group': None,
    'member': None,
    'fences': (),
}


def to_plain(claim):
    """The claim's fields by name, as values that JSON has; default values are left out."""
    plain = {
        name: value
        for name in NAMES
        if (value := getattr(claim, name)) != USUAL.get(name, dataclasses.MISSING)
    }
    plain['resources'] = dict(claim.resources)
    if claim.image_properties:
        plain['image_properties'] = dict(claim.image_properties)
    for name in ('parts', 'resizing'):
        if name in plain:
            plain[name] = plain[name].to_json()
    if claim.fences:
        plain['fences'] = list(claim.fences)
    return plain


def from_plain(plain):
    """The claim from the values that ``to_plain`` made.

    Raises TypeError, ValueError or SchedError for any other value.
    """
    fields = dict(plain)
    for name, kind in (('parts', HardwareAllocation), ('resizing', Resizing)):
        if fields.get(name) is not None:
            fields[name] = kind.from_json(fields[name])
    if 'fences' in fields:
        fields['fences'] = tuple(fields['fences'])
    return Claim(**fields)
