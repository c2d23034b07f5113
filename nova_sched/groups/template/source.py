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
"""Reads YAML text into values with positions, without guesses, and within limits of size.

All YAML that a service gets from outside is read here. Uses the events of the parser, because
composing a tree recurses without a limit and expands aliases without one. The tree has no shared
values: an alias is a copy, whose size counts before it is made. Scalars have the same meaning as
in Heat: dates remain text.
"""

import json
import re
from typing import Any

import yaml

from nova_sched import errors
from nova_sched.groups.template.values import (
    ROOT,
    SIZE,
    Allowance,
    Extent,
    Value,
    check_depth,
    from_plain,
    inside,
    number_fault,
    text_fault,
    to_plain,
)

LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
_RESOLVER = yaml.resolver.Resolver()
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_MAX_NUMBER = 100  # characters; more is text, unless it is tagged
_JSON_FLOAT = re.compile(r'-?[0-9]+(\.[0-9]+)?[eE][+-]?[0-9]+')  # which YAML takes for text
_TAG = 'tag:yaml.org,2002:'
_SCALARS = {
    'null': lambda _node: None,
    'bool': _CONSTRUCTOR.construct_yaml_bool,
    'int': _CONSTRUCTOR.construct_yaml_int,
    'float': _CONSTRUCTOR.construct_yaml_float,
    **dict.fromkeys(('str', 'timestamp', 'value', 'merge'), lambda node: node.value),
}


def values(source: Any, allowance: Allowance | None = None) -> Value:
    """Return the single mapping in the source. Raises TemplateError."""
    value = (
        parse(source, LOADER, allowance) if isinstance(source, str | bytes) else from_plain(source)
    )
    if not isinstance(value.data, dict):
        raise value.wrong(f'a template is a mapping, not {value.kind}')
    return value


def plain(text: str, most: int = SIZE) -> Any:
    """Return the data of a text of at most ``most`` characters; None if there is nothing in it.

    Raises TemplateError.
    """
    if len(text) > most:
        raise errors.TemplateError(ROOT, None, None, f'longer than {most} characters')
    is_blank = all(line.strip()[:1] in ('', '#') for line in text.splitlines())
    return None if is_blank else to_plain(parse(text))


def parse(source: str | bytes, loader: type = LOADER, allowance: Allowance | None = None) -> Value:
    """Return the single YAML document in the text. Raises TemplateError.

    Nearly all JSON is valid YAML, and then values have line numbers. The rest (an escaped
    surrogate pair, a DEL) is read as JSON, without line numbers.
    """
    text = _decoded(source)
    may_be_json = text.lstrip().startswith('{')
    try:
        if bad := yaml.reader.Reader.NON_PRINTABLE.search(text):
            raise _at_end(text[: bad.start()], f'character U+{ord(bad[0]):04X} is not allowed')
        events = _events(text, loader)
        return _Document(events, may_be_json, allowance or Allowance()).value()
    except errors.TemplateError:
        value = _json(text) if may_be_json else None
        if value is None:
            raise
        return value


def _json(text):
    """Return the JSON text as values, without lines; None if it is not JSON or not a template."""
    try:
        return from_plain(json.loads(text, object_pairs_hook=_distinct))
    except (ValueError, RecursionError, errors.TemplateError):
        return None


def _distinct(pairs):
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError('a key is given twice')
    return mapping


def _events(text, loader):
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = ', '.join(part for part in (error.context, error.problem) if part)
        raise errors.TemplateError(
            ROOT, mark and mark.line + 1, mark and mark.column + 1, why
        ) from None
    except Exception as error:  # noqa: BLE001 PyYAML raises anything, of a bad escape for example
        raise errors.TemplateError(ROOT, None, None, f'no YAML: {error}') from None


def _decoded(source):
    """Return text that YAML may contain."""
    if len(source) > SIZE:
        raise errors.TemplateError(ROOT, None, None, f'longer than {SIZE} characters')
    if isinstance(source, str):
        text = source
    else:
        try:
            text = bytes(source).decode('utf-8')
        except UnicodeDecodeError as error:
            before = source[: error.start].decode('utf-8')
            raise _at_end(before, f'byte 0x{source[error.start]:02x} is not UTF-8') from None
    return text.removeprefix('\ufeff')


def _at_end(before, why):
    lines = before.split('\n')
    return errors.TemplateError(ROOT, len(lines), len(lines[-1]) + 1, why)


class _Document:
    """One document, event by event."""

    def __init__(self, events, is_json, allowance):
        self._allowance = allowance
        self._events = events
        self._is_json = is_json
        self._anchors = {}  # name: the Value, and how many values and characters it has
        self._extent = Extent()

    def value(self):
        start = self._next(yaml.StreamStartEvent)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise self._made(start, ROOT).wrong('there is nothing in it')
        value = self._value(next(self._events), ROOT, 0)
        self._next(yaml.DocumentEndEvent)
        if isinstance(more := next(self._events), yaml.DocumentStartEvent):
            raise self._made(more, ROOT).wrong('a second document; a template is one')
        return value

    def _next(self, kind):
        event = next(self._events)
        assert isinstance(event, kind)
        return event

    @staticmethod
    def _made(event, where):
        return Value(None, where, event.start_mark.line + 1, event.start_mark.column + 1)

    def _value(self, event, where, depth):
        value = self._made(event, where)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise value.wrong(f'nothing before it is named &{event.anchor}')
            named, values, characters = self._anchors[event.anchor]
            self._extent.add(value, values, characters)
            return _copied(named, depth)
        before = self._extent.values, self._extent.characters
        self._extent.add(value)
        self._allowance.check(where, value.line, value.column)
        check_depth(value, depth)
        if isinstance(event, yaml.ScalarEvent):
            self._extent.add(value, 0, len(event.value))
            value.data = self._scalar(value, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._tagged(value, event, 'seq')
            items: list[Value] = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                items.append(self._value(item, inside(where, len(items)), depth + 1))
            value.data = items
        else:
            self._tagged(value, event, 'map')
            value.data, value.keys = self._mapping(where, depth)
        if event.anchor:
            values, characters = before
            self._anchors[event.anchor] = (
                value,
                self._extent.values - values,
                self._extent.characters - characters,
            )
        return value

    @staticmethod
    def _tagged(value, event, kind):
        if event.tag not in (None, '!', _TAG + kind):
            raise value.wrong(f'the tag {event.tag} means nothing here')

    def _scalar(self, value, event):
        tag, text = event.tag, event.value
        if fault := text_fault(text):
            raise value.wrong(f'the text {fault}')
        if tag is None or tag == '!':
            if len(text) > _MAX_NUMBER:
                tag = _TAG + 'str'
            elif self._is_json and event.implicit[0] and _JSON_FLOAT.fullmatch(text):
                tag = _TAG + 'float'
            else:
                tag = _RESOLVER.resolve(yaml.ScalarNode, text, event.implicit)
        known = _SCALARS.get(tag.removeprefix(_TAG))
        if known is None:
            raise value.wrong(f'the tag {tag} means nothing here')
        if len(text) > _MAX_NUMBER and tag in (_TAG + 'int', _TAG + 'float'):
            raise value.wrong('the number is too long')
        try:
            data = known(yaml.ScalarNode(tag, text))
        except Exception:  # noqa: BLE001 PyYAML raises anything, an IndexError of !!int ""
            raise value.wrong(f'{text!r} is not of the type {tag.removeprefix(_TAG)}') from None
        if fault := number_fault(data):
            raise value.wrong(f'the number {fault}')
        return data

    def _mapping(self, where, depth):
        data: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        keys: dict[str, tuple[int, int]] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key_value = self._made(event, where)
            if not isinstance(event, yaml.ScalarEvent):
                raise key_value.wrong('a key is text')
            key = event.value
            self._extent.add(key_value, 0, len(key))
            if fault := text_fault(key):
                raise key_value.wrong(f'the key {fault}')
            key_value.where = inside(where, key)
            if key in data:
                raise key_value.wrong(f'{key} is given twice, first in line {keys[key][0]}')
            keys[key] = key_value.line, key_value.column
            value = self._value(next(self._events), inside(where, key), depth + 1)
            if key == '<<' and event.implicit[0]:
                self._merge(value, merged)
                del keys[key]
            else:
                data[key] = value
        if merged:
            data = {**{key: value for key, value in merged.items() if key not in data}, **data}
        return data, keys

    @staticmethod
    def _merge(value, merged):
        """Merge the mappings of <<; if several have the same key, the first has priority."""
        for source in value.data if isinstance(value.data, list) else [value]:
            if not isinstance(source.data, dict):
                raise source.wrong('<< takes a mapping, or a list of mappings')
            for key, item in source.data.items():
                merged.setdefault(key, item)


def _copied(value, depth):
    """Return a copy of what an alias names, which lies ``depth`` deep at the alias."""
    check_depth(value, depth)
    data = value.data
    if isinstance(data, dict):
        data = {key: _copied(item, depth + 1) for key, item in data.items()}
    elif isinstance(data, list):
        data = [_copied(item, depth + 1) for item in data]
    return Value(data, value.where, value.line, value.column, value.keys, value.literal)
