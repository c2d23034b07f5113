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

"""The page Decisions: what was asked for, and how the answer came about."""

import itertools

import flask
from werkzeug import exceptions

from nova_sched import errors, objects
from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.engine.explain.decision_log import REFUSED

ENDPOINT, TITLE, RULE = 'decisions', 'Decisions', 'dashboard:decisions'
ALL = 'dashboard:decisions:all_projects'
ASK = 'dashboard:ask'
MAX_SHOWN, MAX_READ = 50, 5000  # newest decisions: in a list, and searched for it
WIDTH = 1000  # of a drawing, in its own units
THIN = 3  # the least width of a bar that stands for one host at least
COLOURS = 8


def add(app, parts):
    pages = DecisionPages(parts)
    app.add_url_rule('/decisions', ENDPOINT, pages.show)
    app.add_url_rule('/decisions/<request_id>', 'decision', pages.decision)
    app.add_url_rule('/decisions/<request_id>/why-not', 'why_not', pages.why_not, methods=['POST'])


class DecisionPages:
    def __init__(self, parts):
        self._parts = parts

    def show(self):
        """The newest decisions that match a search; for HTMX the rows alone."""
        self._parts.demand(RULE)
        args = flask.request.args
        text, outcome = args.get('q', '').strip(), args.get('outcome', '')
        sees_all = self._parts.may(ALL)  # one check of the policy for thousands of records
        decisions = self._parts.sources.decisions
        if text.startswith('req-'):
            newest = decisions.read(text)[::-1]
        else:
            newest = itertools.islice(
                decisions.newest_first(refused=outcome == REFUSED or not sees_all), MAX_READ
            )
        matching = (
            record
            for record in newest
            if matches(record, text)
            and outcome in ('', record['outcome'])
            and (sees_all or is_own(record))
        )
        rows = [summary(record, sees_all) for record in itertools.islice(matching, MAX_SHOWN)]
        part = 'decision_rows.html' if 'HX-Request' in flask.request.headers else 'decisions.html'
        return flask.render_template(
            part,
            rows=rows,
            q=text,
            outcome=outcome,
            is_operator=sees_all,
            shown=MAX_SHOWN,
            now_s=decisions.now_s(),
        )

    def decision(self, request_id):
        """All decisions about one request."""
        self._parts.demand(RULE)
        sees_all, views = self._parts.may(ALL), []
        for record in self._seen(request_id):
            view = summary(record, sees_all)
            if sees_all:
                view |= {
                    'steps': funnel(record),
                    'placed': record['placed'],
                    'stacks': stacks(record['placed']),
                    'hosts': record['hosts'],
                    'asked': record['asked'],
                }
            views.append(view)
        return flask.render_template(
            'decision.html', request_id=request_id, records=views, is_operator=sees_all
        )

    def why_not(self, request_id):
        """The verdicts of all rules on one host, for the same request now."""
        self._parts.demand(ASK)
        host = flask.request.form.get('host', '').strip()
        if not host:
            raise exceptions.BadRequest('Name a host.')
        records = self._seen(request_id)
        verdicts = self._parts.clients.explain.why_not(
            spec(records[-1]['asked']), host, context=flask.g.context
        )
        return flask.render_template('why_not.html', verdicts=verdicts)

    def _seen(self, request_id):
        """The decisions about a request that the caller may see. Raise NotFound."""
        sees_all = self._parts.may(ALL)
        records = self._parts.sources.decisions.read(request_id)
        visible = [record for record in records if sees_all or is_own(record)]
        if not visible:
            raise errors.NotFound(f'A decision about request {request_id}')
        return visible


def is_own(record):
    """Whether a record is a refusal of the caller's own project: these a project sees."""
    own_project, project_id = flask.g.context.project_id, record['asked']['project_id']
    return own_project is not None and own_project == project_id and record['outcome'] == REFUSED


def matches(record, text):
    """Whether a text is the server, the project, the flavor or the request of a record."""
    request = record['asked']
    known = {request['project_id'], request['flavor'], record['request_id'], *request['instances']}
    return not text or text in known


def summary(record, is_operator):
    """A decision in a list; a project reads the words that its users may read."""
    request = record['asked']
    reason = record['reason']
    if not is_operator and reason is not None:
        reason = record.get('for_tenants') or errors.NOT_ENOUGH
    return {
        'request_id': record['request_id'],
        'time': record['time'],
        'outcome': record['outcome'],
        'reason': reason,
        'instances': record['instances'],
        'servers': request['instances'],
        'flavor': request['flavor'],
        'project_id': request['project_id'],
        'attempts': record.get('attempts'),
        'took_ms': record.get('took_ms'),
        'chosen': [placed['host'] for placed in record['placed']] if is_operator else [],
    }


def spec(request):
    """The request of a record, as far as the record has it: without image properties, hints, NUMA
    cells and devices."""
    resources = request['resources']
    return possible_spec(
        resources.get(VCPU, 0) + resources.get(PCPU, 0),
        resources.get(MEMORY_MB, 0),
        resources.get(DISK_GB, 0),
        dict(request['extra_specs']),
        name=request['flavor'] or 'asked',
        project_id=request['project_id'],
        zone=request['zone'],
        image=request['image'],
    )


def possible_spec(vcpus, memory_mb, root_gb, extra_specs, name='asked', **more):
    """The RequestSpec for a flavor of these sizes; ``more`` as for ``objects.simple_request``."""
    flavor = objects.Flavor(
        id=1,
        flavorid=name,
        name=name,
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=0,
        swap=0,
        extra_specs=extra_specs,
    )
    return objects.simple_request(flavor, **more)


# How a decision came about, as drawings need it: pure functions of records.


def funnel(record):
    """The rules that removed hosts, in order, with the width of the bars before and after each;
    and in ``names`` those that removed none."""
    most = max([record['hosts'], 1, *(step['seen'] for step in record['filters'])])
    steps, idle = [], []
    for step in record['filters']:
        if step['seen'] == step['left']:
            idle.append(step['filter'])
            continue
        steps.append(
            {
                **step,
                'gone': step['seen'] - step['left'],
                'seen_width': _width(step['seen'], most),
                'left_width': _width(step['left'], most),
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
    weighed = next((candidate for candidate in placed if candidate.get('weights')), None)
    if weighed is None:
        return None
    candidates = [
        candidate for candidate in (weighed, *weighed['alternates']) if candidate.get('weights')
    ]
    names = [weight['weigher'] for weight in weighed['weights']]
    parts = [
        [weight['weight'] or 0.0 for weight in candidate['weights']] for candidate in candidates
    ]
    above = max(sum(value for value in values if value > 0) for values in parts)
    below = max(-sum(value for value in values if value < 0) for values in parts)
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
        'legend': [entry for entry in legend if entry[0] in used],
        'zero': round(below * scale, 1),
    }
