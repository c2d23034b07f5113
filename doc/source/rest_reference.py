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
"""A Sphinx directive, ``rest-reference``, that renders the OpenAPI document of the REST API."""

import re

from sphinx.util.docutils import SphinxDirective

from nova_sched.api import document

TABLE = ['.. list-table::', '   :header-rows: 1', '']


def rst(described):
    """Return the document as lines of reStructuredText: operations by tag, then schemas."""
    lines = []
    for tag in described['tags']:
        lines += _heading(prose(tag['description']), '=')
        for path, methods in described['paths'].items():
            for method in document.METHODS:
                if tag['name'] in methods.get(method, {}).get('tags', ()):
                    lines += operation(
                        path, method, methods[method], methods.get('parameters', [])
                    )
    lines += _heading('Schemas', '=')
    for name, schema in described['components']['schemas'].items():
        lines += ['', f'.. _{label(name)}:', *_heading(name, '-'), *_schema(schema)]
    return lines


def operation(path, method, said, shared):
    """Lines of one operation: its parameters, its body and its answers. ``shared`` are the
    parameters of its path."""
    lines = [*_heading(f'{method.upper()} {path}', '-'), f'{prose(said["summary"])}.']
    lines += ['', prose(said['description'])] if 'description' in said else []
    parameters = [document.resolved(one) for one in [*shared, *said.get('parameters', [])]]
    if parameters:
        rows = [
            (f'``{one["name"]}``', one['in'], _required(one), kind(one['schema']), _about(one))
            for one in parameters
        ]
        lines += _table(('Parameter', 'In', 'Required', 'Type', 'Description'), rows)
    for media, content in (
        document.resolved(said.get('requestBody', {})).get('content', {}).items()
    ):
        lines += ['', f'Body, ``{media}``: {kind(content["schema"])}']
    answers = [(status, document.resolved(one)) for status, one in said['responses'].items()]
    rows = [(status, prose(one['description']), _body(one)) for status, one in answers]
    return [*lines, *_table(('Status', 'Meaning', 'Body'), rows)]


def kind(schema):
    """The type of a value in a few words; of a schema with a name, a link to it."""
    if '$ref' in schema:
        name = schema['$ref'].rpartition('/')[2]
        return f':ref:`{name} <{label(name)}>`'
    if 'anyOf' in schema:
        return ' or '.join(map(kind, schema['anyOf']))
    if 'items' in schema:
        return f'array of {kind(schema["items"])}'
    types = schema.get('type', 'any')
    words = ' or '.join(types) if isinstance(types, list) else types
    values = ', '.join(f'``{one}``' for one in schema.get('enum', ()))
    limits = [
        f'{words} {schema[key]}'
        for key, words in (
            ('minimum', 'at least'),
            ('maximum', 'at most'),
            ('maxLength', 'characters: at most'),
            ('default', 'default'),
            ('format', 'format'),
        )
        if key in schema
    ]
    return '; '.join([f'{words}: {values}' if values else words, *limits])


def label(name):
    return f'rest-schema-{name.lower()}'


def prose(text):
    """Text of the document, where code is between single backticks, as reStructuredText."""
    return re.sub(r'`([^`]+)`', r'``\1``', ' '.join(text.split())).replace('*', r'\*')


def _schema(schema):
    lines = ['', _about(schema)] if 'description' in schema else []
    if 'properties' not in schema:
        return [*lines, '', f'Type: {kind(schema)}']
    needed = schema.get('required', ())
    rows = [
        (f'``{name}``', 'yes' if name in needed else 'no', kind(one), _about(one))
        for name, one in schema['properties'].items()
    ]
    return [*lines, *_table(('Key', 'Required', 'Type', 'Description'), rows)]


def _body(answer):
    kinds = dict.fromkeys(kind(one['schema']) for one in answer.get('content', {}).values())
    return ' or '.join(kinds) or 'none'


def _required(one):
    return 'yes' if one.get('required') else 'no'


def _about(one):
    return prose(one.get('description', '')) or r'\ '


def _heading(text, line):
    return ['', text, line * len(text), '']


def _table(head, rows):
    cells = [
        f'   {"*" if place == 0 else " "} - {cell}'
        for row in (head, *rows)
        for place, cell in enumerate(row)
    ]
    return ['', *TABLE, *cells, '']


class RestReference(SphinxDirective):
    """The reference, in place of the directive."""

    def run(self):
        return self.parse_text_to_nodes(
            '\n'.join(rst(document.DOCUMENT)), allow_section_headings=True
        )


def setup(app):
    app.add_directive('rest-reference', RestReference)
    return {'parallel_read_safe': True}
