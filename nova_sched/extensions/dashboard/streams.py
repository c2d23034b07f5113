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

"""Server-sent events about changes, for a limited number of pages at a time."""

import json
import logging
import threading
import time

import flask

from nova_sched import errors

LOG = logging.getLogger(__name__)

STEP_S = 1.0  # seconds between two polls
LIFE_S = 20.0  # seconds after which a stream ends: a server that stops need not wait for it longer
AGAIN_MS = 2000  # after which a browser asks again when a stream has ended
BEAT = ': still here\n\n'  # shows that a browser has gone


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
