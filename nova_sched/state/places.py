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
"""Rows by instance, and the number of instances with equal images on each row."""

import numpy as np

from nova_sched import errors
from nova_sched.objects import ImageMetaProps
from nova_sched.state.columns import resized
from nova_sched.state.fields import read

IMAGE_PREFIX = 'image_'
NO_INSTANCES = np.zeros(0, dtype=np.int64)
MAX_SPARE_IMAGES = 1024  # of instances that are on no row


class Places(dict):
    """Instance UUID -> set of rows that hold it.

    If ``learn`` was called for an instance, the properties of its image are known as (name, text)
    pairs. Rows are counted by such a pair from the first query for one.
    """

    def __init__(self):
        super().__init__()
        self._images = {}  # instance UUID -> frozenset of pairs
        self._shared = {}  # image -> itself: equal images are the same object
        self._counts: dict[tuple[str, str], np.ndarray] | None = None  # pair -> int64 column

    def put(self, uuid, row):
        """Add the row to those that hold the instance."""
        rows = self.setdefault(uuid, set())
        if row not in rows:
            rows.add(row)
            self._count(uuid, row, 1)

    def leave(self, uuid, row):
        """Remove the row from those that hold the instance."""
        rows = self.get(uuid, ())
        if row in rows:
            rows.discard(row)
            self._count(uuid, row, -1)
            if not rows:
                del self[uuid]

    def move(self, uuid, source, target):
        """Replace the row that holds the instance."""
        self.put(uuid, target)
        self.leave(uuid, source)

    # Images.

    def learn(self, uuid, properties):
        """Store the properties of the instance's image: name -> value. It may be on no row yet."""
        image = frozenset((name, str(value)) for name, value in properties.items())
        if image == self.image(uuid):
            return
        rows = self.get(uuid, ())
        for row in rows:
            self._count(uuid, row, -1)
        self._images[uuid] = self._shared.setdefault(image, image)
        for row in rows:
            self._count(uuid, row, 1)
        # An instance on no row may soon be on one: claims end and are made again.
        if len(self._images) > 2 * len(self) + MAX_SPARE_IMAGES:
            self._images = {
                instance_uuid: image
                for instance_uuid, image in self._images.items()
                if instance_uuid in self or instance_uuid == uuid
            }
            self._shared = {image: image for image in self._images.values()}

    def image(self, uuid):
        """Return the instance's image as pairs; empty if it is not known."""
        return self._images.get(uuid, frozenset())

    def count_images(self, pair, rows):
        """Return how many instances with such an image each of the first ``rows`` rows holds."""
        if self._counts is None:
            self._counts = {}
            for uuid in self._images:
                for row in self.get(uuid, ()):
                    self._count(uuid, row, 1)
        return resized(self._counts.get(pair, NO_INSTANCES), rows)

    def _count(self, uuid, row, step):
        counts = self._counts
        if counts is None:
            return
        for pair in self.image(uuid):
            column = counts.get(pair, NO_INSTANCES)
            if row >= len(column):
                column = counts[pair] = resized(column, 2 * row + 1)
            column[row] += step
            if not column[row] and not column.any():
                del counts[pair]


def image_of(instance):
    """Return the properties of an instance's image, name -> text: as stored here, or from Nova's
    system_metadata."""
    known = read(instance, 'image_properties')
    if known is None:
        metadata = read(instance, 'system_metadata') or {}
        free = {key.removeprefix(IMAGE_PREFIX): value
                for key, value in metadata.items() if key.startswith(IMAGE_PREFIX)}  # fmt: skip
        try:
            known = ImageMetaProps.from_dict(free).set_fields()
        except errors.Invalid:
            known = {}
    return {name: str(value) for name, value in known.items() if value is not None}
