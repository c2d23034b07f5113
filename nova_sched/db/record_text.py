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
        short['filters'] = [_short_filter(one) for one in short['filters']]
    names = next((_names(host) for host in _hosts(record) if host.get('weights')), None)
    if names and all(_names(host) == names for host in _hosts(record) if 'weights' in host):
        short['weighers'] = names
        short['placed'] = [_each_host(one, _short_weights) for one in record['placed']]
    return json.dumps(short, separators=(',', ':'))


def load(text):
    """Returns the record of a text, of this release or of an earlier one."""
    record = json.loads(text)
    if 'filters' in record:
        record['filters'] = [_long_filter(one) for one in record['filters']]
    names = record.pop('weighers', None)
    if names is not None:
        record['placed'] = [
            _each_host(one, lambda weights: _long_weights(names, weights))
            for one in record['placed']
        ]
    return record


def _short_filter(one):
    return one if any(_said(one)) else _numbers(one)


def _long_filter(one):
    return {**dict(zip(FILTER, one, strict=True)), **SILENT} if isinstance(one, list) else one


def _hosts(record):
    for one in record.get('placed', ()):
        yield one
        yield from one['alternates']


def _names(host):
    return [weight['weigher'] for weight in host['weights']]


def _each_host(placed, change):
    """A placed instance with other ``weights`` of its host and of its alternates."""
    found = dict(placed)
    if 'weights' in found:
        found['weights'] = change(found['weights'])
    found['alternates'] = [
        {**one, 'weights': change(one['weights'])} if 'weights' in one else one
        for one in placed['alternates']
    ]
    return found


def _short_weights(weights):
    return [_figures(one) for one in weights]


def _long_weights(names, weights):
    return [
        {'weigher': name, **dict(zip(FIGURES, figures, strict=True))}
        for name, figures in zip(names, weights, strict=True)
    ]
