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

LOG = logging.getLogger(__name__)

GROUP = 'nova_sched.extensions'


class Extension:
    """What an extension offers. Each process calls the methods that concern it; those that are
    not overridden offer nothing.

    The class named by an entry point is imported in every process, so that its module imports
    what is heavy in the methods only.
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
        reach to a function of the configuration. That returns its findings; None if no such
        service is configured."""
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
        operation of that tag. ``api`` is a cmd.api.Api."""
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
        """End all threads. The engine still runs."""

    def follow(self, rules):
        """From now on, requests are decided by these engine.catalog.Rules."""

    def figures(self):
        """Return figures for `scheduler list`: a mapping of plain values."""
        return {}

    def decided(self, order, decision):
        """An engine.cycle.Order was decided: a Decision, or the NoValidHost that refuses it. It
        may lose its claims, and be decided again."""

    def committed(self, order, outcome):
        """The claims of an Order were tried: the claims.PlacementOutcome."""

    def answered(self, order, outcome):
        """The caller of an Order has its answer: `placed`, `refused` or `lost`."""


SEAMS = ('decided', 'committed', 'answered')


class Seams:
    """The parts that listen at each seam of the cycle."""

    def __init__(self, parts=()):
        for name in SEAMS:
            listening = [
                part for part in parts if getattr(type(part), name) is not getattr(Part, name)
            ]
            setattr(self, name, tuple(getattr(part, name) for part in listening))

    @staticmethod
    def tell(listeners, order, said):
        """Tell each of these listeners; what one raises is logged."""
        for listener in listeners:
            try:
                listener(order, said)
            except Exception:
                LOG.exception('An extension failed at a seam of the scheduler')


@functools.cache
def installed():
    """Return an Extension for each entry point, by name. One that cannot be loaded is logged, and
    left out."""
    found = {}
    for point in sorted(importlib.metadata.entry_points(group=GROUP)):
        try:
            found[point.name] = point.load()()
        except Exception:
            LOG.exception('The extension %s cannot be loaded; it is left out', point.name)
    return found
