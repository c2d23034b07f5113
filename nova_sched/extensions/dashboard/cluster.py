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

"""The page Cluster: the map of all hosts, whose changes are server-sent events, and one host."""

import dataclasses
import json
import logging
import threading
import time

import flask
from werkzeug import exceptions

from nova_sched import errors
from nova_sched.conf.cluster import SET_BY_NOVA, reads_nova
from nova_sched.extensions.dashboard import host_page

LOG = logging.getLogger(__name__)

ENDPOINT, TITLE, RULE = 'cluster', 'Cluster', 'dashboard:hosts'
DECISIONS = 'dashboard:decisions:all_projects'
SET_SERVICE = 'dashboard:hosts:set_service'
STEP_S = 1.0  # seconds between two polls
LIFE_S = 20.0  # seconds after which a stream ends: a server that stops need not wait for it longer
AGAIN_MS = 2000  # after which a browser asks again when a stream has ended
BEAT = ': still here\n\n'  # shows that a browser has gone


def add(app, parts):
    pages = ClusterPages(parts)
    app.add_url_rule('/cluster', ENDPOINT, pages.show)
    app.add_url_rule('/cluster/board', 'cluster_board', pages.board)
    app.add_url_rule('/cluster/changes', 'cluster_changes', pages.changes)
    app.add_url_rule('/cluster/host', 'cluster_host', pages.host)
    app.add_url_rule('/cluster/host/service', 'cluster_service', pages.service, methods=['POST'])


class ClusterPages:
    def __init__(self, parts):
        self._parts = parts
        self._streams = Streams(parts.conf.dashboard.streams)

    def show(self):
        self._parts.demand(RULE)
        return flask.render_template('cluster.html', host=flask.request.args.get('host', ''))

    def board(self):
        """All hosts, for the script of the map."""
        self._parts.demand(RULE)
        text = json.dumps(self._parts.sources.overview.board(), separators=(',', ':'))
        return flask.Response(text, mimetype='application/json')

    def changes(self):
        """Server-sent events: the cells that have changed since the version that the browser
        has."""
        self._parts.demand(RULE)
        request = flask.request
        since = request.headers.get('Last-Event-ID') or request.args.get('since')
        return self._streams.answer(self._parts.sources.overview.changes, since)

    def host(self):
        """All about one host."""
        self._parts.demand(RULE)
        facts = self._parts.sources.overview.facts()
        return self._host(flask.request.args.get('name', ''), facts)

    def service(self):
        """Disable or enable a host, unless hosts are read from Nova."""
        self._parts.demand(SET_SERVICE)
        if reads_nova(self._parts.conf):
            raise errors.InvalidRequest('a setting of a host', SET_BY_NOVA)
        form, overview = flask.request.form, self._parts.sources.overview
        name, is_disabled = form.get('name', ''), form.get('disabled')
        if is_disabled not in ('yes', 'no'):
            raise exceptions.BadRequest('The form does not say whether the host is disabled.')
        facts = overview.facts()
        if not facts.knows(name):
            raise errors.HostNotFound(f'Host {name}', '')
        # None: what was forced down in the meantime stays so, as `facts` may be some seconds old.
        service = dataclasses.replace(
            facts.service(name),
            disabled=is_disabled == 'yes',
            disabled_reason=form.get('reason', '').strip() or None,
            forced_down=None,
        )
        self._parts.sources.store.set_service(service)
        return self._host(name, overview.facts_now())

    def _host(self, name, facts):
        if not facts.knows(name):
            raise errors.HostNotFound(f'Host {name}', '')
        history = None
        if self._parts.may(DECISIONS):
            history = host_page.history(self._parts.sources.decisions.newest_first(), name)
        host = host_page.view(facts, name)
        return flask.render_template(
            'host.html',
            host=host,
            history=history,
            now_s=facts.now_s,
            may_set=self._parts.may(SET_SERVICE) and not reads_nova(self._parts.conf),
        )


class Streams:
    """``most`` streams stay open. A further one has the present changes and ends, and its browser
    asks again: it works as well, with more requests."""

    def __init__(self, most, sleep=time.sleep, clock=time.monotonic):
        self._places = threading.Semaphore(most)
        self._sleep, self._clock = sleep, clock

    def answer(self, changes, since):
        """A response for ``changes(version)``, which returns the version now and what has changed,
        or None if all has."""
        body = self._events(changes, since)
        return flask.Response(
            body, mimetype='text/event-stream', headers={'X-Accel-Buffering': 'no'}
        )

    def _events(self, changes, since):
        stays = self._places.acquire(blocking=False)
        try:
            end_s = self._clock() + LIFE_S
            yield f'retry: {AGAIN_MS}\n\n'
            while True:
                try:
                    version, changed = changes(since)
                except errors.StoreUnavailable as error:
                    LOG.debug('A map of hosts has no changes: %s', error)
                    return  # the browser asks again
                if changed is None:
                    yield _event('reload', version, '')
                    return
                yield _event('cells', version, changed) if version != since else BEAT
                since = version
                if not stays or self._clock() >= end_s:
                    return
                self._sleep(STEP_S)
        finally:
            if stays:
                self._places.release()


def _event(name, version, data):
    text = json.dumps(data, separators=(',', ':'))
    return f'event: {name}\nid: {version}\ndata: {text}\n\n'
