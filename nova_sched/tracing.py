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
"""Traces of requests: which part took how long, as plain values.

Any code may add to a trace. Nothing here knows how traces are shown: ``cmd.trace_export`` makes
spans of OpenTelemetry of those that have ended. A trace continues that of the caller, whose
context comes in the W3C form, or in that of osprofiler.
"""

import contextlib
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

KEY, OSPROFILER = 'traceparent', 'trace_info'  # keys of a message's context
FORM = re.compile('([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?')
NO_VERSION = 'ff'
SAMPLED = 1  # a flag
HALF = (1 << 64) - 1


class Parent(NamedTuple):
    """The span that a trace continues."""

    trace_id: int
    span_id: int
    is_sampled: bool = True

    @property
    def text(self) -> str:
        """In the form of W3C."""
        return f'00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}'


class Span(NamedTuple):
    """One part of a trace, with times of ``time.perf_counter``. ``events`` are what happened in
    it, as named tuples: the ``name`` of an event and its attributes. All of them have the time
    of its end."""

    name: str
    begin_s: float
    end_s: float
    attributes: Mapping[str, Any]
    events: Sequence[NamedTuple] = ()


class Trace:
    """What happened for one request in this process. Its parts may be added in any thread.

    ``failure`` is the text of the error with which it ended.
    """

    def __init__(self, name: str, parent: Parent | None, sink: Callable[['Trace'], None]):
        self.name, self.parent, self._sink = name, parent, sink
        self.trace_id = parent.trace_id if parent else new_id(128)
        self.span_id = new_id(64)
        self.attributes: dict[str, Any] = {}
        self.spans: list[Span] = []
        self.failure = ''
        self.begin_s = self.end_s = time.perf_counter()

    def add(
        self,
        name: str,
        begin_s: float,
        end_s: float,
        events: Sequence[NamedTuple] = (),
        **attributes: Any,
    ) -> None:
        """Add a part that has ended."""
        self.spans.append(Span(name, begin_s, end_s, attributes, events))

    def end(self, error: BaseException | None = None) -> None:
        self.failure = '' if error is None else str(error) or type(error).__name__
        self.end_s = time.perf_counter()
        self._sink(self)

    def end_with(self, future: Future) -> None:
        """End when the future does."""
        future.add_done_callback(lambda done: self.end(done.exception()))

    def again(self) -> 'Trace':
        """Return another trace for the same caller, whose request is handled once more."""
        return Trace(self.name, self.parent or self.place, self._sink)

    @property
    def place(self) -> Parent:
        """Return what a trace of another process continues."""
        return Parent(self.trace_id, self.span_id)


class Tracer:
    """Decides which requests are traced: those whose caller is, and ``share`` of those whose
    caller says nothing. ``sink`` gets each trace that has ended, in any thread.

    Without a sink there are no traces.
    """

    def __init__(self, share: float = 0.0, chance: Callable[[], float] = random.random):
        self.share, self._chance = share, chance
        self.sink: Callable[[Trace], None] | None = None
        self._of_thread = threading.local()

    def begin(self, name: str, **attributes: Any) -> Trace | None:
        """A Trace of a request that this thread handles; None if it is not traced."""
        if self.sink is None:
            return None
        parent = self.parent
        if not (self._chance() < self.share if parent is None else parent.is_sampled):
            return None
        trace = Trace(name, parent, self.sink)
        trace.attributes.update(attributes)
        return trace

    @property
    def parent(self) -> Parent | None:
        """The Parent of what this thread does."""
        return getattr(self._of_thread, 'parent', None)

    def following(self, parent: Parent | None) -> contextlib.AbstractContextManager[None]:
        """In this block, what the thread does continues a span."""
        if self.sink is None:
            return contextlib.nullcontext()
        return self._following(parent)

    @contextlib.contextmanager
    def _following(self, parent: Parent | None) -> Iterator[None]:
        before, self._of_thread.parent = self.parent, parent
        try:
            yield
        finally:
            self._of_thread.parent = before

    @contextlib.contextmanager
    def traced(self, name: str, **attributes: Any) -> Iterator[Trace | None]:
        """The work of this block as a trace; calls to other processes continue it."""
        trace = self.begin(name, **attributes)
        if trace is None:
            yield None
            return
        with self._following(trace.place):
            try:
                yield trace
            except BaseException as error:
                trace.end(error)
                raise
        trace.end()


TRACER = Tracer()


def read(context: Mapping[str, Any]) -> Parent | None:
    """The Parent in the context of a message, or in the headers of a request; None if there is
    none, or none that can be read."""
    text, profiled = context.get(KEY), context.get(OSPROFILER)
    match = FORM.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        version, trace_id, span_id, flags, more = match.groups()
        parent = Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & SAMPLED))
        is_known = version != NO_VERSION and not (version == '00' and more)
        return parent if is_known and parent.trace_id and parent.span_id else None
    return _of_osprofiler(profiled) if isinstance(profiled, Mapping) else None


def _of_osprofiler(profiled: Mapping[str, Any]) -> Parent | None:
    """osprofiler traces all requests that it knows. Its UUIDs become ids as its own exporter for
    OpenTelemetry makes them."""
    try:
        trace_id = uuid.UUID(profiled['base_id']).int
        span_id = uuid.UUID(profiled['parent_id']).int & HALF
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return Parent(trace_id, span_id) if trace_id and span_id else None


def new_id(bits: int) -> int:
    """Return a new id of a trace (128 bits) or a span (64)."""
    return random.getrandbits(bits) or 1
