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
"""Shows a replay as it runs: a live bar at a terminal, otherwise periodic plain lines."""

import time

from rich.progress import BarColumn, Progress, TextColumn

PLAIN_INTERVAL_S = 5.0
FACTS = 'placed {placed:,} refused {refused:,} running {running:,}'
WORDS = 68  # columns reserved for the text next to the bar


def live(console, requests):
    """Returns a context manager that yields the ``watch`` function of a replay of that many
    requests."""
    return Bar(console, requests) if console.is_terminal else Lines(console, requests)


def facts(tally):
    return FACTS.format(placed=tally.placed, refused=tally.refused, running=tally.running)


def clock_face(seconds):
    """Returns hours and minutes of simulated time."""
    return f'{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}'


class Bar:
    def __init__(self, console, requests):
        self._progress = Progress(
            TextColumn('trace [bold]{task.fields[face]:>5}[/] h'),
            BarColumn(bar_width=min(max(console.width - WORDS, 8), 40)),
            TextColumn('{task.completed:,}/{task.total:,}'),
            TextColumn('{task.fields[facts]}'),
            console=console,
        )
        self._task = self._progress.add_task('', total=requests, face='0:00', facts='')

    def __enter__(self):
        self._progress.start()
        return self._watch

    def __exit__(self, *raised):
        self._progress.stop()

    def _watch(self, tally):
        face = clock_face(tally.now_s - tally.began_s)
        self._progress.update(self._task, completed=tally.requests, face=face, facts=facts(tally))


class Lines:
    def __init__(self, console, requests):
        self._console, self._requests = console, requests
        self._next_s = 0.0

    def __enter__(self):
        return self._watch

    def __exit__(self, *raised):
        pass

    def _watch(self, tally):
        if time.monotonic() < self._next_s and tally.requests < self._requests:
            return
        self._next_s = time.monotonic() + PLAIN_INTERVAL_S
        face = clock_face(tally.now_s - tally.began_s)
        done = f'{tally.requests:,}/{self._requests:,}'
        self._console.print(
            f'trace {face:>5} h  {done} requests  {facts(tally)}  {tally.took_s:.0f} s',
            highlight=False,
            soft_wrap=True,
        )
