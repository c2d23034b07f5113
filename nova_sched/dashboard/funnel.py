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

"""How a decision came about, as drawings need it: the funnel of rules, and the winners' weights.

Pure functions of decision records.
"""

WIDTH = 1000  # of a drawing, in its own units
THIN = 3  # the least width of a bar that stands for one host at least
COLOURS = 8


def funnel(record):
    """The rules that removed hosts, in order, with the width of the bars before and after each;
    and in ``names`` those that removed none."""
    most = max([record['hosts'], 1, *(one['seen'] for one in record['filters'])])
    steps, idle = [], []
    for one in record['filters']:
        if one['seen'] == one['left']:
            idle.append(one['filter'])
            continue
        steps.append(
            {
                **one,
                'gone': one['seen'] - one['left'],
                'seen_width': _width(one['seen'], most),
                'left_width': _width(one['left'], most),
            }
        )
    return {'steps': steps, 'idle': idle}


def _width(number, most):
    return max(THIN, round(WIDTH * number / most)) if number else 0


def stacks(placed):
    """The candidates of the first instance that was weighed, best first: for each the weigher's
    parts of its weight as bars; None if no host was weighed.

    A bar has ``x`` and ``width``, ``colour`` by weigher. Parts below zero lie left of ``zero``.
    """
    weighed = next((one for one in placed if one.get('weights')), None)
    if weighed is None:
        return None
    candidates = [one for one in (weighed, *weighed['alternates']) if one.get('weights')]
    names = [one['weigher'] for one in weighed['weights']]
    parts = [[one['weight'] or 0.0 for one in each['weights']] for each in candidates]
    above = max(sum(value for value in each if value > 0) for each in parts)
    below = max(-sum(value for value in each if value < 0) for each in parts)
    scale = WIDTH / (above + below) if above + below else 0.0
    rows = []
    for candidate, values in zip(candidates, parts, strict=True):
        right = left = below * scale
        bars = []
        for number, value in enumerate(values):
            width = abs(value) * scale
            left -= width if value < 0 else 0
            if width >= 0.5:
                bars.append(
                    {
                        'x': round(left if value < 0 else right, 1),
                        'width': round(width, 1),
                        'colour': number % COLOURS,
                        'weigher': names[number],
                        'weight': value,
                    }
                )
            right += width if value > 0 else 0
        rows.append(
            {
                'host': candidate['host'],
                'weight': candidate['weight'],
                'weights': candidate['weights'],
                'bars': bars,
            }
        )
    legend = [(name, number % COLOURS) for number, name in enumerate(names)]
    used = {bar['weigher'] for row in rows for bar in row['bars']}
    return {
        'rows': rows,
        'legend': [one for one in legend if one[0] in used],
        'zero': round(below * scale, 1),
    }
