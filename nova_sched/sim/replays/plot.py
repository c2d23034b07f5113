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
"""Draws the courses of several policies next to each other, with matplotlib."""

import statistics

from nova_sched import errors

SIZE_IN = (8.0, 9.0)
PANELS = {
    'allocated': 'allocated, % of capacity',
    'refused': 'servers refused',
    'empty': 'empty hosts',
}


def draw(path, title, courses_by_policy):
    """Writes a picture; its format follows the name of the file. Raises BadConfig.

    Each policy is a line, its lowest and highest seed a band. The horizontal axis is time for a
    trace with times, else the load that was asked for.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise errors.BadConfig(
            '--plot', 'matplotlib is not installed; install nova-sched[plots]'
        ) from None
    figure = Figure(figsize=SIZE_IN, layout='constrained')
    figure.suptitle(title)
    axes = figure.subplots(len(PANELS), sharex=True)
    courses = [one for runs in courses_by_policy.values() for one in runs.values()]
    is_timed = any(one.empty is not None for one in courses)
    for axis, (name, label) in zip(axes, PANELS.items(), strict=True):
        axis.set_ylabel(label)
        axis.grid(visible=True, alpha=0.3)
        for policy, runs in courses_by_policy.items():
            x, low, mean, high = _line(list(runs.values()), name, is_timed)
            (line,) = axis.plot(x, mean, label=policy)
            axis.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes[0].legend()
    axes[-1].set_xlabel('hours' if is_timed else 'asked for, % of capacity')
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise errors.BadConfig(f'--plot {path}', str(error)) from None


def _line(courses, name, is_timed):
    """The horizontal values that all runs have; and lowest, mean and highest value there."""
    steps = list(zip(*(course.samples for course in courses), strict=False))
    begin_s = steps[0][0].time_s if steps else 0.0
    x = [(step[0].time_s - begin_s) / 3600.0 if is_timed else step[0].load for step in steps]
    values = [[getattr(one, name) for one in step] for step in steps]
    return x, list(map(min, values)), list(map(statistics.mean, values)), list(map(max, values))
