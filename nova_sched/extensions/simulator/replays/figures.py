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
"""The figures of several runs of one policy: their means, and a table and a picture of all
policies."""

import dataclasses
import statistics

import numpy as np
from rich.table import Table

from nova_sched import errors
from nova_sched.extensions.simulator.replays.run import MARKS

LABELS = {
    'first_refusal': 'servers before the first refusal',
    'allocated': '% allocated in the end',
    **{f'allocated_at_{mark}': f'% allocated at {mark} % asked for' for mark in MARKS},
    'empty': '% of hosts empty',
    'p50_ms': 'median decision, ms',
    'p99_ms': '99 of 100 decisions, ms',
}


def of_run(course):
    """Return the figures of a Course by name: shares in %, times in milliseconds."""
    p50_s, p99_s = np.percentile(course.took_s or [0.0], [50, 99]).tolist()
    figures = {
        'servers': course.servers,
        'placed': course.servers - course.refused,
        'refused': course.refused,
        'first_refusal': course.first_refusal,
        'allocated': course.allocated,
        **{f'allocated_at_{mark}': course.marks.get(mark) for mark in MARKS},
        'empty': course.empty,
        **{f'placed: {kind}': placed for kind, (placed, _) in course.kinds.items()},
        'p50_ms': 1000.0 * p50_s,
        'p99_ms': 1000.0 * p99_s,
    }
    return {name: value for name, value in figures.items() if value is not None}


def of_policy(courses):
    """Return (mean, standard deviation, runs that have it) of each figure over the runs."""
    runs = [of_run(course) for course in courses]
    return {name: _summary([run[name] for run in runs if name in run]) for name in _names(runs)}


def _names(mappings):
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _summary(values):
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.mean(values), spread, len(values)


def as_dict(workload, courses_by_policy):
    """Return all figures and samples, for JSON."""
    return {
        'workload': workload,
        'policies': {
            policy: {
                'figures': {
                    name: {'mean': mean, 'deviation': spread, 'runs': runs}
                    for name, (mean, spread, runs) in of_policy(courses.values()).items()
                },
                'runs': [
                    {
                        'seed': seed,
                        'hosts': course.hosts,
                        **of_run(course),
                        'samples': [dataclasses.asdict(sample) for sample in course.samples],
                    }
                    for seed, course in courses.items()
                ],
            }
            for policy, courses in courses_by_policy.items()
        },
    }


def table(workload, courses_by_policy):
    """Return a Table with a column for each policy."""
    figures_of = {
        policy: of_policy(courses.values()) for policy, courses in courses_by_policy.items()
    }
    rich_table = Table(title=workload)
    rich_table.add_column('mean ± standard deviation')
    for policy in figures_of:
        rich_table.add_column(policy, justify='right')
    for name in _names(figures_of.values()):
        rich_table.add_row(
            LABELS.get(name, name), *(_cell(figures.get(name)) for figures in figures_of.values())
        )
    return rich_table


def _cell(figure):
    if figure is None:
        return '-'
    mean, spread, runs = figure
    digits = 0 if abs(mean) >= 1000 else 2
    return f'{mean:,.{digits}f}' + (f' ± {spread:,.{digits}f}' if runs > 1 else '')


# The picture: the courses of the policies next to each other, with matplotlib.

SIZE_IN = (8.0, 9.0)
PANELS = {
    'allocated': 'allocated, % of capacity',
    'refused': 'servers refused',
    'empty': 'empty hosts',
}


def draw(path, title, courses_by_policy):
    """Write a picture; its format follows the name of the file. Raise BadConfig.

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
    courses = [course for runs in courses_by_policy.values() for course in runs.values()]
    is_timed = any(course.empty is not None for course in courses)
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
    values = [[getattr(course, name) for course in step] for step in steps]
    return x, list(map(min, values)), list(map(statistics.mean, values)), list(map(max, values))
