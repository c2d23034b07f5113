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
"""What trials of joint plans come to: shares of groups placed, times, scores, answers to why
not."""

import statistics

from nova_sched.tests.bench.timing import p50_ms, p99_ms

PLACED = (
    'what,groups,sequential,best order,greedy,joint,feasible placed,impossible,undecided,regained'
).split(',')
TIMES = 'what,groups,greedy p50,greedy p99,greedy CPU p50,of sequential,with repair p99'.split(',')
REPAIRS = 'what,groups,share,time p50,time p90,time p99'.split(',')
SCORES = 'what,groups,greedy below best,p90,improved below best,gain,gain p90,worse'.split(',')
ANSWERS = 'what,groups,minimal core,contradictory,count,what fits,p50,p90,in 2 s'.split(',')
RACKS = 'what,order,one by one,at once,jointly,plan p50,plan p99'.split(',')  # of joint_huawei
ENGINE = 'what,order,groups,servers,create p50,create p99,build p50'.split(',')  # of joint_engine
WHY = 'minimal', 'contradicts', 'count', 'fits'
TABLES = PLACED, TIMES, REPAIRS, SCORES, ANSWERS, RACKS, ENGINE


def rows(made):
    """Rows of every table, each a dict with the table's columns."""
    yield from _each(made, lambda one: f'{one.case.share:.0%} of the vCPUs in use', _placed)
    yield from _each(
        made, lambda one: f'{one.case.hosts:,} hosts, {one.case.members} members', _placed
    )
    yield from _each(made, lambda one: one.shape, _placed)
    yield _placed('all', made)
    yield from _each(
        made, lambda one: f'{one.case.hosts:,} hosts, {one.case.members} members', _times
    )
    yield from _repairs(made)
    yield from _each(
        [one for one in made if one.improved_cost], lambda one: f'{one.case.members}', _scores
    )
    yield from _each(
        [one for one in made if one.why is not None], lambda one: f'{one.case.members}', _answers
    )


def show(made):
    """Print all tables."""
    from prettytable import PrettyTable

    every = list(rows(made))
    for fields in TABLES:
        table = PrettyTable(fields)
        table.align = 'r'
        table.align['what'] = 'l'
        table.add_rows([list(row.values()) for row in every if list(row) == fields])
        if table.rows:
            print(table)


def _each(made, name, row):
    for one in dict.fromkeys(map(name, made)):
        yield row(one, [trial for trial in made if name(trial) == one])


def _placed(what, made):
    count = len(made)
    feasible = [one for one in made if one.is_feasible]
    lost = [one for one in made if one.sequential_ms is None]
    figures = (
        what,
        count,
        _share(made, lambda one: one.sequential_ms is not None),
        _share(made, lambda one: one.ordered_ms is not None),
        _share(made, lambda one: one.greedy_ms is not None),
        _share(made, lambda one: one.is_placed),
        _share(feasible, lambda one: one.is_placed),
        _share(made, lambda one: one.verdict == 'impossible'),
        _share(made, lambda one: one.verdict == 'undecided'),
        _share(lost, lambda one: one.is_placed),
    )
    return dict(zip(PLACED, figures, strict=True))


def _times(what, made):
    placed = [one for one in made if one.greedy_ms is not None]
    both = [one.greedy_ms / one.sequential_ms for one in placed if one.sequential_ms is not None]
    greedy = [one.greedy_ms / 1000 for one in placed]
    cpu = [one.greedy_cpu_ms / 1000 for one in placed]
    whole = [(one.greedy_ms if one.repair_ms is None else one.repair_ms) / 1000 for one in made]
    figures = (
        what,
        len(made),
        _ms(p50_ms, greedy),
        _ms(p99_ms, greedy),
        _ms(p50_ms, cpu),
        f'{statistics.median(both):.1f}' if both else '',
        _ms(p99_ms, whole),
    )
    return dict(zip(TIMES, figures, strict=True))


def _repairs(made):
    """Groups that greedy did not place: how each ended."""
    asked = [one for one in made if one.repair_ms is not None]
    for verdict in ('placed', 'impossible', 'undecided'):
        ended = [one for one in asked if one.verdict == verdict]
        seconds = [one.repair_ms / 1000 for one in ended]
        figures = (
            f'after greedy: {verdict}',
            len(ended),
            f'{len(ended) / len(asked):.0%}' if asked else '',
            _ms(p50_ms, seconds),
            _ms(_p90_ms, seconds),
            _ms(p99_ms, seconds),
        )
        yield dict(zip(REPAIRS, figures, strict=True))


def _scores(what, made):
    below = [_below(one.greedy_cost, one.best_cost) for one in made if one.best_cost]
    improved = [_below(one.improved_cost, one.best_cost) for one in made if one.best_cost]
    gain = [_below(one.greedy_cost, one.improved_cost) for one in made]
    figures = (
        f'{what} members',
        len(made),
        *_mean_and_p90(below),
        _mean_and_p90(improved)[0],
        *_mean_and_p90(gain),
        sum(one.improved_cost > one.greedy_cost for one in made),
    )
    return dict(zip(SCORES, figures, strict=True))


def _answers(what, made):
    seconds = [one.why_ms / 1000 for one in made]
    figures = (
        f'{what} members',
        len(made),
        *(_share(made, lambda one, part=part: part in one.why) for part in WHY),
        _ms(p50_ms, seconds),
        _ms(_p90_ms, seconds),
        _share(seconds, lambda one: one < 2),
    )
    return dict(zip(ANSWERS, figures, strict=True))


def _below(cost, better):
    """By which share a score is lower than another; None where they differ in what comes before
    scores."""
    (preferred, moves, loss, *_), (best_preferred, best_moves, best_loss, *_) = cost, better
    if (preferred, moves) != (best_preferred, best_moves) or not best_loss:
        return None
    return 1 - loss / best_loss


def _mean_and_p90(shares):
    known = sorted(share for share in shares if share is not None)
    if not known:
        return '', ''
    return f'{statistics.fmean(known):.2%}', f'{known[int(0.9 * (len(known) - 1))]:.2%}'


def _share(made, holds):
    made = list(made)
    return f'{sum(map(holds, made)) / len(made):.1%}' if made else ''


def _ms(figure, seconds):
    return f'{figure(seconds):,.1f} ms' if seconds else ''


def _p90_ms(seconds):
    return sorted(seconds)[int(0.9 * (len(seconds) - 1))] * 1000
