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
"""The metrics of nodes, as their reports contain them."""

import json
import math
import types

from nova_sched.objects.compute_node import PERCENTAGES
from nova_sched.state.fields import read as attribute

# A metric that is reported, but not as one number: by NUMA cell, or an invalid value.
NO_VALUE = math.inf
MAX_VALUE = 2**63


def read(text):
    """Return the metrics in a report's text, each with Nova's attribute names; none if the text
    is not a list."""
    try:
        items = json.loads(text) if text else []
    except (ValueError, RecursionError):
        items = []
    return [
        types.SimpleNamespace(**{**item, 'value': _number(item['name'], item.get('value'))})
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict) and isinstance(item.get('name'), str)
    ]


def _number(name, value):
    """Return a value as Nova reads it, whole; percentages are sent as fractions of 1. None: it is
    not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_VALUE:
        return None
    return int(value * 100) if name in PERCENTAGES else int(value)


def values(metrics):
    """Return the numbers of metrics by name, from metrics with Nova's attribute names; NO_VALUE
    for a metric without a number."""
    by_name = {metric.name: attribute(metric, 'value') for metric in metrics or ()}
    return {name: NO_VALUE if value is None else float(value) for name, value in by_name.items()}
