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

"""The page What if: where a server would go, how many fit, and what would have to change."""

import dataclasses
import json

import flask

from nova_sched import errors, words
from nova_sched.engine.explain.decision_log import PLACED
from nova_sched.extensions.dashboard.decisions import funnel, possible_spec, stacks
from nova_sched.groups.template import source

ENDPOINT, TITLE, RULE = 'what_if', 'What if', 'dashboard:ask'
SIZES = {'vcpus': 1, 'ram': 512, 'disk': 0}
MAX_SERVERS = 1000  # servers of one question
MAX_SIZE = 10**12  # of any amount
MAX_PASTED = 2**16  # characters of a flavor: it is read in a thread of the API
MAX_EASIER = 8  # changes of a refused request that are tried


def add(app, parts):
    pages = WhatIfPages(parts)
    app.add_url_rule('/what-if', ENDPOINT, pages.show)
    app.add_url_rule('/what-if', 'what_if_asked', pages.ask, methods=['POST'])


@dataclasses.dataclass(frozen=True)
class Wish:
    """A request of the form: memory in MiB, disk in GiB."""

    vcpus: int
    ram: int
    disk: int
    count: int
    extra_specs: dict[str, str]
    zone: str | None = None
    project_id: str | None = None

    def spec(self):
        return possible_spec(
            self.vcpus,
            self.ram,
            self.disk,
            self.extra_specs,
            count=self.count,
            project_id=self.project_id,
            zone=self.zone,
        )


class WhatIfPages:
    def __init__(self, parts):
        self._parts = parts

    def show(self):
        self._parts.demand(RULE)
        return flask.render_template('what_if.html', form=flask.request.args, sizes=SIZES)

    def ask(self):
        self._parts.demand(RULE)
        wish = read(flask.request.form)
        decision = self._dry_run(wish)
        single = dataclasses.replace(wish, count=1)
        capacity = self._parts.clients.explain.capacity(single.spec(), context=flask.g.context)
        # Requests that differ in one point and would find hosts.
        tried = [] if decision['outcome'] == PLACED else easier(wish)[:MAX_EASIER]
        changes = [text for text, other in tried if self._dry_run(other)['outcome'] == PLACED]
        return flask.render_template(
            'what_if_answer.html',
            decision=decision,
            wish=wish,
            capacity=capacity,
            changes=changes,
            steps=funnel(decision),
            stacks=stacks(decision['placed']),
        )

    def _dry_run(self, wish):
        return self._parts.clients.explain.dry_run(wish.spec(), context=flask.g.context)


def easier(wish):
    """Requests that ask for less than this one in one point: pairs of a text and a Wish."""
    wishes = []
    if wish.count > 1:
        wishes.append((f'1 server in place of {wish.count}', dataclasses.replace(wish, count=1)))
    if wish.zone:
        wishes.append((f'any zone in place of {wish.zone}', dataclasses.replace(wish, zone=None)))
    for key, value in wish.extra_specs.items():
        rest = {name: word for name, word in wish.extra_specs.items() if name != key}
        wishes.append((f'without {key}={value}', dataclasses.replace(wish, extra_specs=rest)))
    for name, unit in (('vcpus', 'vCPUs'), ('ram', 'MiB of memory'), ('disk', 'GiB of disk')):
        half = getattr(wish, name) // 2
        if half:
            wishes.append(
                (f'{half} {unit}, half of it', dataclasses.replace(wish, **{name: half}))
            )
    return wishes


def read(form):
    """The Wish of a form. Raise InvalidRequest.

    A pasted flavor (JSON or YAML, as `openstack flavor show` prints it) goes before the sizes.
    """
    pasted = _pasted(form.get('flavor', ''))
    sizes = {name: _size(name, pasted.get(name, form.get(name) or 0)) for name in SIZES}
    if not sizes['vcpus'] or not sizes['ram']:
        raise errors.InvalidRequest('sizes', 'a server has at least 1 vCPU and 1 MiB of memory')
    count = _size('count', form.get('count') or 1)
    if not 1 <= count <= MAX_SERVERS:
        raise errors.InvalidRequest('count', f'{count} is not from 1 to {MAX_SERVERS}')
    extra_specs = {**pasted.get('extra_specs', {}), **_pairs(form.get('extra_specs', ''))}
    for name in extra_specs:
        if why := words.why_internal(words.EXTRA_SPEC, name):
            raise errors.InvalidRequest('extra specs', why)
    return Wish(
        **sizes,
        count=count,
        extra_specs=extra_specs,
        zone=form.get('zone', '').strip() or None,
        project_id=form.get('project', '').strip() or None,
    )


def _size(name, value):
    try:
        return words.whole(value, most=MAX_SIZE)
    except ValueError as error:
        raise errors.InvalidRequest(name, str(error)) from None


def _pairs(text):
    """Lines of KEY=VALUE as a mapping."""
    pairs = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition('=')
        if not equals or not key.strip():
            raise errors.InvalidRequest('extra specs', f"'{line[:80]}' is not KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def _pasted(text):
    """The sizes and extra specs of a pasted flavor, by the names of the form."""
    if not text.strip():
        return {}
    try:
        flavor = source.plain(text, MAX_PASTED)
    except errors.TemplateError as error:
        raise errors.InvalidRequest('flavor', error.fault) from None
    if not isinstance(flavor, dict):
        raise errors.InvalidRequest('flavor', 'it is not a mapping; paste JSON or YAML')
    flavor = flavor.get('flavor', flavor) if isinstance(flavor.get('flavor'), dict) else flavor
    sizes = {name: flavor[name] for name in SIZES if name in flavor}
    properties = flavor.get('properties', flavor.get('extra_specs')) or {}
    if isinstance(properties, str):  # openstack flavor show -f json of old clients
        properties = _pairs(properties.replace("'", '').replace(', ', '\n'))
    if not isinstance(properties, dict):
        raise errors.InvalidRequest('flavor', 'its properties are not a mapping')
    for key, value in properties.items():
        if not isinstance(value, str | int | float):
            raise errors.InvalidRequest('flavor', f"its property '{key[:80]}' is not text")
    sizes['extra_specs'] = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in properties.items()
    }
    return sizes
