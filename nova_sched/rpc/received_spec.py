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
"""RequestSpecs that arrive: what is alike in many of them is read and translated once.

Most calls ask for one of a few flavors and images, and differ in the instance, its owner and its
hints. The fields that calls of one kind share (``KIND_FIELDS``) are recognised by their serialized
form. Equal bytes are equal values of equal types, so that what was checked once needs no check
again. All other fields are read and checked in each message.
"""

import collections
import marshal
import threading

from nova_sched import errors, objects, words
from nova_sched.objects.field_io import REFUSALS, UNKNOWN
from nova_sched.objects.object_io import CHANGES, DATA, NAME, NAMESPACE, VERSION
from nova_sched.state.spec import KIND_FIELDS

MAX_KINDS = 1024  # kinds that are kept; the one that was not used for the longest time goes first
MAX_KIND_BYTES = 2**14  # bytes of the fields of a kind; a larger one is not kept
# Without references to values that occur twice: these depend on which of them are the same object.
FORMAT = 2
# Objects that a sender makes for each instance, even if nothing else in them differs.
OF_INSTANCE = ('pci_requests', 'numa_topology')
UUID = 'instance_uuid'

# What a message that cannot be read raises; it is read in full then, for the exact error.
UNUSUAL = (*REFUSALS, AttributeError, KeyError, RecursionError, errors.SchedError)


class SpecKind:
    """The properties of requests (``KIND_READERS``) that calls of one kind share.

    ``facts`` is None until they are read for the first time.
    """

    __slots__ = ('facts',)

    def __init__(self):
        self.facts = None


class ReceivedSpec:
    """A RequestSpec of a message: the set fields of the call are attributes, and those of its kind
    are not read again."""

    def __init__(self, primitive, fields, kind):
        self.__dict__.update(fields)
        self._primitive, self._kind, self._whole = primitive, kind, None

    def __contains__(self, name):
        return name in self.__dict__

    @staticmethod
    def obj_name():
        """The name of its class for the sender, as of any versioned object."""
        return objects.RequestSpec.obj_name()

    def whole(self):
        """The RequestSpec; it is shared with no other message."""
        if self._whole is None:
            self._whole = objects.from_primitive(self._primitive)
        return self._whole

    def facts(self, read):
        """The properties of the kind, by name. If they are not known, ``read`` reads them from the
        RequestSpec."""
        if self._kind.facts is None:
            self._kind.facts = read(self.whole())
        return self._kind.facts


class SpecKinds:
    """The kinds of RequestSpecs that were received lately. Its methods may be called from any
    thread."""

    def __init__(self, most=MAX_KINDS):
        self._kinds = collections.OrderedDict()
        self._most, self._lock = most, threading.Lock()

    def __len__(self):
        return len(self._kinds)

    def find(self, value):
        """The ReceivedSpec of a primitive. None: it must be read in full, because its kind is not
        known, or because it is no sound RequestSpec of the current version."""
        try:
            key, call = _split(value)
            with self._lock:
                kind = self._kinds.get(key)
                if kind is None:
                    return None
                self._kinds.move_to_end(key)
            fields, known = {}, objects.RequestSpec.wire_fields
            for name in call.keys() & known.keys():
                _, exact, read, nullable = known[name]
                one = call[name]
                if not (type(one) is exact or (one is None and nullable)):
                    one = read(one)
                if one is not UNKNOWN:
                    fields[name] = one
        except UNUSUAL:
            return None
        return ReceivedSpec(value, fields, kind)

    def keep(self, value, spec):
        """Keep the kind of a primitive that was read in full as ``spec``. Returns its
        ReceivedSpec, or ``spec`` itself if its kind cannot be kept."""
        if 'flavor' not in spec:
            return spec
        try:
            key, _ = _split(value)
        except UNUSUAL:
            return spec
        with self._lock:
            self._kinds.setdefault(key, SpecKind())
            if len(self._kinds) > self._most:
                self._kinds.popitem(last=False)
        found = self.find(value)
        if found is None:
            return spec
        found._whole = spec
        return found


def _split(value):
    """The serialized fields of the kind, and the other fields. Raises one of ``UNUSUAL`` for
    anything but a RequestSpec of the current version with text that can be stored."""
    if type(value) is not dict or value.get(NAME) != 'RequestSpec':
        raise TypeError
    data, cls = value[DATA], objects.RequestSpec
    if value.get(VERSION) != cls.VERSION or value.get(NAMESPACE) != cls.OBJ_PROJECT_NAMESPACE:
        raise ValueError
    kind = {name: data[name] for name in data.keys() & KIND_FIELDS}
    call = {name: one for name, one in data.items() if name not in kind}
    if words.ESCAPED.search(repr([{**value, DATA: None}, call])):
        raise ValueError
    for change in value.get(CHANGES) or ():
        if type(change) is not str:
            raise TypeError
    for name in OF_INSTANCE:
        if kind.get(name) is not None:
            data = kind[name][DATA]
            if not words.is_uuid(data[UUID]):
                raise ValueError
            kind[name] = {**kind[name], DATA: {**data, UUID: None}}
    key = marshal.dumps(sorted(kind.items()), FORMAT)
    if len(key) > MAX_KIND_BYTES:
        raise ValueError
    return key, call
