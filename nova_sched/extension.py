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
"""The seam between the core and its extensions: what an extension may offer, and which are
installed.

The core imports no extension. It finds them by the entry points of the group
``nova_sched.extensions``, and asks each for what the process at hand needs.
"""

import functools
import importlib.metadata
import logging
import threading
from collections.abc import Callable
from typing import Any

from nova_sched import errors

LOG = logging.getLogger(__name__)

GROUP = 'nova_sched.extensions'
SEAMS = 'decided', 'committed', 'answered'

Listener = Callable[[Any, Any], None]
Listeners = tuple[Listener, ...]


class Extension:
    """What an extension offers. Each process calls the methods that concern it; those that are
    not overridden offer nothing.

    Every process imports the class that an entry point names, so its module should import heavy
    packages, and ``nova_sched.api``, only inside methods. A method that fails is logged, and
    offers nothing; a BadConfig is for the operator, and ends the start of the process. Where the
    core has the same name, the core's thing stays.
    """

    def options(self):
        """Return modules of options: each has ``GROUP``, ``OPTS`` and ``register_opts(conf)``."""
        return ()

    def measures(self):
        """Return its nova_sched.measures: a Counter, Gauge or Histogram each."""
        return ()

    # nova-sched-manage.

    def nouns(self):
        """Return a mapping of each noun to its help text, and to where its verbs are, as
        `package.module:NAME`."""
        return {}

    def checks(self):
        """Return functions of the configuration that `config check` calls. Each yields a
        ConfigFinding for what is wrong."""
        return ()

    def trials(self):
        """Return a mapping of the name of each service that `config check --connect` tries to
        reach to a function of the configuration. The function returns its findings, or None if no
        such service is configured."""
        return {}

    # nova-sched-api.

    def document(self):
        """Return its part of the OpenAPI document of the REST API: ``tags``, ``paths`` and the
        ``components`` that they refer to."""
        return {}

    def policies(self, rule):
        """Return the policies of its operations, each made with ``rule`` (api.policies.rule)."""
        return ()

    def handlers(self, api):
        """Return a mapping of a tag of the document to an object that has a method for each
        operation of that tag. ``api`` is an api.app.Api."""
        return {}

    def applications(self, api):
        """Return a mapping of a path to the WSGI application that is served there."""
        return {}

    def companions(self, conf, bus):
        """Return the services that run within nova-sched-api if it has no message bus, not
        started. Each has ``start`` and ``stop``."""
        return ()

    # nova-sched-scheduler.

    def begin(self, scheduler):
        """Return a Part of an engine.scheduler.Scheduler that is being made; None: none."""
        return


class Part:
    """An extension within one scheduler process. Methods that are not overridden cost nothing.

    ``decided``, ``committed`` and ``answered`` are the seams of the cycle. They run in the
    thread that owns the host state, and hold all other requests: they note, and leave the work
    to another thread. An error in one is logged, and concerns the extension alone.
    """

    def endpoints(self, bus):
        """Return endpoints for the RPC server on this bus. Called once, before it listens."""
        return ()

    def start(self):
        """The host state was read; the engine runs."""

    def leave(self):
        """The process ends soon: begin nothing that takes long."""

    def stop(self):
        """End all threads, also if there was no ``start``. The engine still runs."""

    def follow(self, rules):
        """From now on, requests are decided by these engine.catalog.Rules."""

    def figures(self):
        """Return figures for `scheduler list`: a mapping of plain values."""
        return {}

    def decided(self, order, decision):
        """An engine.cycle.Order was decided: a Decision, or a NoValidHost. It may be decided
        again: its claims may lose, and before a refusal stands, the store is read."""

    def committed(self, order, outcome):
        """The claims of an Order were tried: the claims.PlacementOutcome."""

    def answered(self, order, outcome):
        """The caller of an Order has its answer: `placed`, `refused` or `lost`. Orders that are
        invalid, or whose group cannot be planned again, are not told of."""


class Seams:
    """The listeners at each seam of the cycle: functions of an Order and of what is said of it,
    which raise nothing.

    The first error of a listener is logged. The methods may be called from any thread.
    """

    def __init__(self):
        self.decided: Listeners = ()
        self.committed: Listeners = ()
        self.answered: Listeners = ()
        self._by_name: dict[str, dict[str, Listener]] = {name: {} for name in SEAMS}
        self._lock = threading.Lock()

    def join(self, name, part):
        """Have a Part, of the extension of this name, listen by the methods that it overrides."""
        for seam in SEAMS:
            if getattr(type(part), seam) is not getattr(Part, seam):
                self.listen(seam, name, getattr(part, seam))

    def listen(self, seam, name, listener):
        """Have the extension of this name listen at a seam from now on, with this function; None:
        not any more. What listens only at times costs nothing meanwhile."""
        with self._lock:
            listeners = self._by_name[seam]
            if listener is None:
                listeners.pop(name, None)
            else:
                listeners[name] = _guarded(name, listener)
            setattr(self, seam, tuple(listeners.values()))


def _guarded(name, listener):
    failures: list[Exception] = []

    def tell(order, said):
        try:
            listener(order, said)
        except Exception as error:
            if not failures:
                failures.append(error)
                LOG.exception(
                    'The extension %s failed at a seam; further errors there are not logged', name
                )

    return tell


_loading = threading.local()


@functools.cache
def installed():
    """Return an Extension for each entry point, by name. One that cannot be loaded is logged, and
    left out; so is a second one of the same name."""
    if getattr(_loading, 'is_on', False):
        raise ImportError('a module that asks for extensions is imported by one: import it later')
    extensions: dict[str, Extension] = {}
    _loading.is_on = True
    try:
        for point in sorted(importlib.metadata.entry_points(group=GROUP)):
            try:
                extension = point.load()()
                if not isinstance(extension, Extension):
                    raise TypeError(f'{point.value} is not an Extension')
                if point.name in extensions:
                    raise ValueError('another package has an extension of this name')
                extensions[point.name] = extension
            except Exception:
                LOG.exception('The extension %s cannot be loaded; it is left out', point.name)
    finally:
        _loading.is_on = False
    return extensions


def offered(kind, method, *args):
    """Return what each installed extension offers: pairs of its name and the ``kind`` (list or
    dict) that its ``method`` returns.

    One that fails is logged, and left out here. Raises BadConfig if one does.
    """
    offers = []
    for name, extension in installed().items():
        try:
            offers.append((name, kind(getattr(extension, method)(*args))))
        except errors.BadConfig:
            raise
        except Exception:
            LOG.exception('The extension %s failed: %s', name, method)
    return offers


def united(method, *args):
    """Return the mappings that the installed extensions offer as one. The first one that has a key
    wins, in the order of their names."""
    whole: dict = {}
    for _, some in offered(dict, method, *args):
        whole = {**some, **whole}
    return whole
