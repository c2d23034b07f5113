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
"""The OpenAPI document of the REST API: served to clients, and read by the API itself."""

import dataclasses
import functools
import importlib.resources
import logging
from typing import Any

import jsonschema
import yaml

from nova_sched import extension

LOG = logging.getLogger(__name__)

METHODS = ('get', 'put', 'post', 'delete')
JSON, YAML = 'application/json', 'application/yaml'


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One path and method. ``query`` maps a parameter name to its JSON schema; ``media`` maps a
    media type of the body to its schema.

    Without ``media`` the operation takes no body; ``needs_body``: the body is required.
    ``is_open``: no token is needed; ``tells_hosts``: the response may name hosts. ``tag`` selects
    the handler.
    """

    path: str
    method: str
    query: dict[str, Any]
    media: dict[str, Any]
    needs_body: bool
    is_open: bool
    tells_hosts: bool
    tag: str

    @property
    def is_counted(self):
        """Whether it counts as a request for plans: all that change a group, or plan one, do."""
        return self.tag == 'groups' and self.method != 'get'

    @property
    def rule(self):
        """The path as a rule of Werkzeug's router."""
        return self.path.replace('{uuid}', '<uuid:uuid>').replace('{name}', '<text:name>')


def read(package):
    """Read the file openapi.yaml of a package: a document, or a part of it."""
    return yaml.safe_load(
        importlib.resources.files(package).joinpath('openapi.yaml').read_text('utf-8')
    )


def _whole():
    """The document of the core with the parts of the extensions, which replace nothing in it."""
    whole = read(__package__)
    for name, part in extension.offered(dict, 'document'):
        try:
            whole = _with(whole, part)
        except Exception:
            LOG.exception('The extension %s is not in the document of the API', name)
    return whole


def _with(whole, part):
    paths, components = dict(whole['paths']), dict(whole['components'])
    for path, methods in part.get('paths', {}).items():
        paths[path] = {**methods, **paths.get(path, {})}
    for kind, parts in part.get('components', {}).items():
        components[kind] = {**parts, **components.get(kind, {})}
    tags = [*whole['tags'], *part.get('tags', ())]
    return {**whole, 'tags': tags, 'paths': paths, 'components': components}


def resolved(part):
    """Return a part of the document, or the part that its `$ref` points at."""
    if '$ref' not in part:
        return part
    return functools.reduce(
        lambda at, step: at[step], part['$ref'].removeprefix('#/').split('/'), DOCUMENT
    )


def _operation(path, method, description):
    parameters = [resolved(parameter) for parameter in description.get('parameters', [])]
    body = resolved(description.get('requestBody', {}))
    answers = [resolved(answer).get('content', {}) for answer in description['responses'].values()]
    return Operation(
        path,
        method,
        query={
            parameter['name']: parameter['schema']
            for parameter in parameters
            if parameter['in'] == 'query'
        },
        media={kind: content['schema'] for kind, content in body.get('content', {}).items()},
        needs_body=body.get('required', False),
        is_open=description.get('security') == [],
        tells_hosts=any(answer.get(JSON, {}).get('schema') in TELLING for answer in answers),
        tag=description['tags'][0],
    )


DOCUMENT = _whole()
# Schemas of responses that name hosts.
TELLING = [{'$ref': f'#/components/schemas/{name}'} for name in ('Group', 'Plan')]


def _operations(document):
    """Each operationId with its Operation. The document of an extension may be wrong about one."""
    for path, methods in document['paths'].items():
        for method in METHODS:
            try:
                if method in methods:
                    yield methods[method]['operationId'], _operation(path, method, methods[method])
            except Exception:
                LOG.exception('%s %s cannot be served as the document says', method.upper(), path)


OPERATIONS = dict(_operations(DOCUMENT))


@functools.lru_cache(maxsize=64)
def _validator(name):
    return jsonschema.Draft202012Validator(
        {'$ref': f'#/components/schemas/{name}', 'components': DOCUMENT['components']}
    )


def fault(schema, value):
    """Where and why a value does not match a schema of the document: two texts, or None if it
    matches."""
    validator = (
        _validator(schema['$ref'].rpartition('/')[2])
        if '$ref' in schema
        else jsonschema.Draft202012Validator(schema)
    )
    mismatch = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if mismatch is None:
        return None
    return '.'.join(str(step) for step in mismatch.absolute_path), shortened(mismatch.message)


def shortened(text, most=300):
    """Return the text, without its middle if it is long."""
    return text if len(text) <= most else f'{text[: most // 2]} … {text[-most // 2 :]}'
