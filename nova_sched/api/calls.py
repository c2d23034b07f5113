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
"""One request, read and validated against the document: the argument of a handler."""

import dataclasses
import functools
import io
import json
import re
import urllib.parse
from typing import Any

import flask
from oslo_context.context import RequestContext
from werkzeug import exceptions
from werkzeug.utils import cached_property

from nova_sched import errors, words
from nova_sched.api import document, views
from nova_sched.api.document import YAML

MAX_DEPTH = 100  # values inside of values of a body: as many as the RPC takes
WHOLE_NUMBER = re.compile(r'-?[0-9]{1,18}')
WORDS = {'true': True, 'false': False}


class Request(flask.Request):
    """A request whose body is read as a whole or refused, whichever web server brings it.

    Werkzeug ends a body of unknown length at the limit, as if it ended there.
    """

    @cached_property
    def stream(self):
        """The body. Raise RequestEntityTooLarge."""
        most = self.max_content_length
        is_in_chunks = self.environ.get('wsgi.input_terminated') and self.content_length is None
        if not is_in_chunks or most is None:
            return super().stream
        body = bytearray()
        while len(body) <= most and (more := self.environ['wsgi.input'].read(most + 1)):
            body += more
        if len(body) > most:
            raise exceptions.RequestEntityTooLarge
        return io.BytesIO(body)


@dataclasses.dataclass(frozen=True)
class ApiCall:
    """A request for one operation, from a caller.

    ``query`` are the parameters that were given. ``context`` has no user where no token is needed.
    """

    operation: document.Operation
    request: Any
    context: RequestContext
    query: dict[str, Any]

    @property
    def root(self):
        """The address at which the caller sees the API, without a trailing slash."""
        return self.request.root_url.rstrip('/')

    @property
    def dry_run(self):
        return self.query.get('dry_run', False)

    def following(self, marker, limit):
        """The link to the page that follows that marker."""
        query = urllib.parse.urlencode({**self.request.args, 'marker': marker, 'limit': limit})
        return {'rel': 'next', 'href': f'{self.root}{self.operation.path}?{query}'}

    @functools.cached_property
    def body(self):
        """The body, as a mapping. For a template the whole body is its text, under `template`.

        Raise InvalidRequest, UnsupportedMediaType or RequestEntityTooLarge.
        """
        data = self.request.get_data(cache=False)
        if not data:
            if self.operation.needs_body:
                raise errors.InvalidRequest('body', 'there is none')
            return {}
        kind = self.request.mimetype
        if kind not in self.operation.media:
            raise exceptions.UnsupportedMediaType(
                f'The body may be {" or ".join(self.operation.media)}.'
            )
        if kind == YAML:
            return {'template': _decoded(data)}
        body = _json(data)
        if (fault := document.fault(self.operation.media[kind], body)) is not None:
            raise errors.InvalidRequest(fault[0] or 'body', fault[1])
        return body

    def seen_generations(self, needed):
        """Generations that the caller has seen, by If-Match; None: any.

        With ``needed`` the header is required. The result is empty for weak tags, which match
        nothing. Raise PreconditionRequired, or InvalidRequest if this API cannot have issued any
        of the tags.
        """
        if 'If-Match' not in self.request.headers:
            if needed:
                why = 'Say with If-Match which ETag this is based on, or If-Match: * for any.'
                raise exceptions.PreconditionRequired(why)
            return None
        given = self.request.if_match
        if given.star_tag:
            return None
        if all(views.generation(tag) is None for tag in given.as_set(include_weak=True)):
            header = self.request.headers['If-Match']
            raise errors.InvalidRequest('If-Match', f"'{header}' is not an ETag of this API")
        numbers = [views.generation(tag) for tag in given.as_set()]
        return sorted(number for number in numbers if number is not None)

    def has(self, tag):
        """Whether the caller has the response with this tag already, by If-None-Match."""
        return self.request.if_none_match.contains_weak(tag)


def read_query(operation, given):
    """The query parameters by name, with the types that the document defines. Raise
    InvalidRequest."""
    for name in given:
        if name not in operation.query:
            known = ', '.join(operation.query) or 'none'
            raise errors.InvalidRequest(
                name, f'there is no such parameter here; there are: {known}'
            )
        if len(given.getlist(name)) > 1:
            raise errors.InvalidRequest(name, 'it is given more than once')
    return {name: _value(name, text, operation.query[name]) for name, text in given.items()}


def _value(name, text, schema):
    """Return a parameter, converted by its schema. Raise InvalidRequest."""
    kind = document.resolved(schema)['type']
    value = text
    if kind == 'boolean':
        value = WORDS.get(text, text)
    elif kind == 'integer' and WHOLE_NUMBER.fullmatch(text):
        value = int(text)
    if (fault := document.fault(schema, value)) is not None:
        raise errors.InvalidRequest(name, fault[1])
    return value


def _decoded(data):
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError as error:
        raise errors.InvalidRequest('body', f'it is not UTF-8: {error.reason}') from None


def _json(data):
    """Parse a JSON document of Unicode text and finite numbers. Raise InvalidRequest."""
    try:
        value = json.loads(_decoded(data), parse_constant=_refuse, object_pairs_hook=_mapping)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise errors.InvalidRequest('body', f'it is not a JSON document: {error}') from None
    _check_depth(value, MAX_DEPTH)
    return value


def _mapping(pairs):
    """The mapping, as those who read it in another way would see it, too."""
    mapping = {}
    for name, value in pairs:
        if name in mapping:
            raise ValueError(f'{words.short(name)} is given twice')
        mapping[name] = value
    return mapping


def _check_depth(value, left):
    """Raise InvalidRequest for values that nest more than ``left`` deep."""
    if left < 0:
        raise errors.InvalidRequest('body', f'values nest more than {MAX_DEPTH} deep')
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, left - 1)


def _refuse(word):
    raise ValueError(f'{word} is not a number')
