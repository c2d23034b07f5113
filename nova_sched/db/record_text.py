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
"""The text of a decision record in the database: the record, without names that repeat.

A filter that gave no reason is a list of its name and numbers. The weights of the placed hosts are
lists of numbers, and the names of the weighers stand once. That halves the text, of which there
may be one for each decision.
"""

import json
import operator

FILTER = 'filter', 'seen', 'left'
SILENT = {'why': '', 'removed': [], 'nearest': None, 'nearest_why': ''}
FIGURES = 'raw', 'normalised', 'multiplier', 'weight'
_numbers, _said, _figures = (operator.itemgetter(*names) for names in (FILTER, SILENT, FIGURES))


def dump(record):
    """Returns the text of a record, which has the form of engine.explain.decision_log.record."""
    short = dict(record)
    if 'filters' in short:
        short['filters'] = [
            step if any(_said(step)) else _numbers(step) for step in short['filters']
        ]
    names = next((_names(host) for host in _hosts(record) if host.get('weights')), None)
    if names and all(_names(host) == names for host in _hosts(record) if 'weights' in host):
        short['weighers'] = names
        short['placed'] = [
            _each_host(placed, lambda weights: [_figures(weight) for weight in weights])
            for placed in record['placed']
        ]
    return json.dumps(short, separators=(',', ':'))


def load(text):
    """Returns the record of a text, of this release or of an earlier one."""
    record = json.loads(text)
    if 'filters' in record:
        record['filters'] = [
            {**dict(zip(FILTER, step, strict=True)), **SILENT} if isinstance(step, list) else step
            for step in record['filters']
        ]
    names = record.pop('weighers', None)
    if names is not None:

        def named(weights):
            return [
                {'weigher': name, **dict(zip(FIGURES, figures, strict=True))}
                for name, figures in zip(names, weights, strict=True)
            ]

        record['placed'] = [_each_host(placed, named) for placed in record['placed']]
    return record


def _hosts(record):
    for placed in record.get('placed', ()):
        yield placed
        yield from placed['alternates']


def _names(host):
    return [weight['weigher'] for weight in host['weights']]


def _each_host(placed, change):
    """A placed instance with other ``weights`` of its host and of its alternates."""
    changed = dict(placed)
    if 'weights' in changed:
        changed['weights'] = change(changed['weights'])
    changed['alternates'] = [
        {**alternate, 'weights': change(alternate['weights'])}
        if 'weights' in alternate
        else alternate
        for alternate in placed['alternates']
    ]
    return changed
