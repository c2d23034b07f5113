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
"""All orders of events around the create of one server: two workers, two managers, messages that
come twice, processes that stop between two steps, claims that expire.

The world below is small and complete; what a row and a message lead to is asked of the product's
own function, and the managers do its steps in the order of ``Endings``.
"""

import collections
import dataclasses
import functools
from typing import Any, NamedTuple

import pytest

from nova_sched.db.jobs import CANCELLED, QUEUED
from nova_sched.extensions.queues import jobs
from nova_sched.extensions.queues.manager.endings import Consequences, transition
from nova_sched.objects.job import DONE, FAILED
from nova_sched.tests.builders import NOW
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.unit.extensions.queues.managed_queues import job

HOSTS = (0, 1)
NONE, PENDING, CONFIRMED = '-', 'P', 'C'  # claims
IDLE, CLAIMED, BUILT, CONFIRMS, RUNS = range(5)  # a node and the server
LEAVES, LEAVES_ONLY, GONE = 'D', 'd', 'g'  # deletes; the second one keeps the quota
MOST = 1  # copies of a message in one queue


class Manager(NamedTuple):
    """A message in the hands of a manager, and how far it has come. ``seen`` is the row's state as
    it was read, ``claims`` those that were read after it, and ``then`` what is left to do."""

    message: Any
    step: str = 'find'
    told: str = FAILED
    host: int | None = None
    seen: str = QUEUED
    claims: tuple = ()
    then: tuple = ()


class World(NamedTuple):
    row: str = QUEUED
    quota: bool = True
    answers: frozenset = frozenset()
    claims: tuple = (NONE, NONE)
    nodes: tuple = (IDLE, IDLE)
    flavor: int = 1  # copies in the flavor's queue
    placed: tuple = (0, 0)  # and in those of the nodes
    fallback: int = 0
    results: tuple = ()  # hosts that have built it
    deletes: tuple = (NONE, NONE)
    is_deleted: bool = False
    managers: tuple = (None, None)
    # How often what may go wrong, or be asked for, may still happen.
    twice: int = 0
    stops: int = 0
    expiries: int = 0
    cancels: int = 0


def put(values, place, value):
    return (*values[:place], value, *values[place + 1 :])


CREATE = job()
ENTRY = jobs.entry(CREATE, NOW)
DELETE = jobs.entry(job('delete'), NOW + 1, 'host')


@functools.cache
def consequences(state, told, host, is_deleted):
    entries = [ENTRY, DELETE] if is_deleted else [ENTRY]
    entry = dataclasses.replace(ENTRY, state=state)
    return transition(entry, CREATE, told, host, lambda: entries)


# Workers.


def workers(w):
    for host in HOSTS:
        if w.nodes[host] in (IDLE, RUNS):
            if w.flavor:
                yield f'worker {host} takes it', taken(w._replace(flavor=w.flavor - 1), host)
            if w.placed[host]:
                left = w._replace(placed=put(w.placed, host, w.placed[host] - 1))
                yield f'worker {host} takes its own', taken(left, host, is_claimed=True)
            if w.deletes[host] in (LEAVES, LEAVES_ONLY):
                yield f'worker {host} deletes it', deleted(w, host)
        if w.nodes[host] == CLAIMED:
            yield f'worker {host} builds', w._replace(nodes=put(w.nodes, host, BUILT))
            if w.fallback < MOST:
                yield (
                    f'worker {host} fails',
                    w._replace(
                        nodes=put(w.nodes, host, IDLE),
                        claims=w.claims
                        if w.claims[host] == CONFIRMED
                        else put(w.claims, host, NONE),
                        fallback=w.fallback + 1,
                    ),
                )
        if w.nodes[host] == BUILT:
            lost = w.claims[host] == NONE
            yield (
                f'worker {host} confirms',
                w._replace(
                    nodes=put(w.nodes, host, IDLE if lost else CONFIRMS),
                    claims=w.claims if lost else put(w.claims, host, CONFIRMED),
                ),
            )
        if w.nodes[host] == CONFIRMS:
            yield (
                f'worker {host} tells',
                reported(w._replace(nodes=put(w.nodes, host, RUNS)), host),
            )


def reported(w, host):
    return w._replace(results=tuple(sorted({*w.results, host})))


def taken(w, host, is_claimed=False):
    other = 1 - host
    if w.nodes[host] == RUNS:
        return reported(w, host) if w.claims[host] == CONFIRMED else w
    if is_claimed and w.claims[host] == NONE:
        return w
    if not is_claimed:
        if w.claims[other] == CONFIRMED:
            return reported(w, other)
        made = w.claims[host] if w.claims[host] == CONFIRMED else PENDING
        w = w._replace(claims=put((NONE, NONE), host, made))
    return w._replace(nodes=put(w.nodes, host, CLAIMED))


def deleted(w, host):
    """Its result is read at once: a manager only ends the quota for it."""
    return w._replace(
        nodes=put(w.nodes, host, IDLE),
        claims=put(w.claims, host, NONE),
        quota=w.quota and w.deletes[host] == LEAVES_ONLY,
        deletes=put(w.deletes, host, GONE),
    )


# Managers.


def managers(w, order):
    for place, one in enumerate(w.managers):
        if one is None:
            # Managers are alike: the first free one takes it.
            for what, after, message in messages(w) if place == w.managers.index(None) else ():
                yield what, after._replace(managers=put(w.managers, place, message))
        else:
            for what, after, now in order(w, one):
                yield (
                    f'manager {place} {what}',
                    after._replace(managers=put(w.managers, place, now)),
                )


def messages(w):
    if w.fallback:
        yield (
            'a job falls back',
            w._replace(fallback=w.fallback - 1),
            Manager('fallback', step='decide'),
        )
    for host in w.results:
        left = tuple(one for one in w.results if one != host)
        yield 'a result is read', w._replace(results=left), Manager(host, told=DONE, host=host)
    if w.row == CANCELLED and w.quota and not {LEAVES, LEAVES_ONLY} & {*w.deletes}:
        yield 'upkeep finds it', w, Manager('upkeep')
    if w.row == QUEUED and not (w.flavor or any(w.placed) or w.fallback or w.results):
        if w.nodes == (IDLE, IDLE) and w.managers == (None, None):
            yield 'upkeep finds it lost', w, Manager('upkeep', step='decide')
        for host in HOSTS:
            if w.claims[host] == CONFIRMED:
                done = Manager('upkeep', told=DONE, host=host)
                yield 'upkeep finds it done', w, done


def row_first(w, one):
    """The steps of Endings for a create."""
    match one.step:
        case 'decide':  # Fallback
            there = [host for host in HOSTS if w.claims[host] == CONFIRMED]
            if w.row != QUEUED:
                yield 'sees that it has ended', w, one._replace(step='find')
            elif there:
                yield 'sees it there', w, one._replace(step='find', told=DONE, host=there[0])
            else:
                yield 'is refused', w, one._replace(step='find')
                for host in HOSTS:
                    if w.placed[host] < MOST:
                        yield (
                            f'is given host {host}',
                            w._replace(
                                claims=put((NONE, NONE), host, PENDING),
                                placed=put(w.placed, host, w.placed[host] + 1),
                            ),
                            None,
                        )
        case 'find':
            step = 'look' if one.told == FAILED else 'write'
            yield 'reads the row', w, one._replace(step=step, seen=w.row)
        case 'look':
            there = [host for host in HOSTS if w.claims[host] == CONFIRMED]
            told = {'told': DONE, 'host': there[0]} if there else {}
            yield 'looks', w, one._replace(step='write', claims=w.claims, **told)
        case 'write':
            if one.seen == QUEUED != w.row:
                yield 'was too late', w, one._replace(step='find')
                return
            state, then = consequences(one.seen, one.told, one.host, w.is_deleted)
            after = w
            if one.seen == QUEUED:
                after = w._replace(row=state, quota=w.quota and state == DONE)
            yield f'writes {state}', after, one._replace(step='then', then=_steps(then))
        case 'then':
            (first, *rest) = one.then
            now = one._replace(then=tuple(rest)) if rest else None
            yield f'does {first[0]}', done(w, one, first), now


def _steps(then: Consequences):
    return (
        *(('delete', follow) for follow in then.deletes),
        *([('unclaim', None)] if then.unclaims else []),
        *([('end quota', None)] if then.ends_quota else []),
        ('answer', then.answer),
    )


def done(w, one, step):
    match step:
        case ('delete', follow):
            is_new = w.deletes[follow.host] in (NONE, GONE)
            made = LEAVES_ONLY if follow.keeps_quota else LEAVES
            return w._replace(deletes=put(w.deletes, follow.host, made)) if is_new else w
        case ('unclaim', _):
            ended = [
                NONE if seen == now == PENDING else now
                for seen, now in zip(one.claims, w.claims, strict=True)
            ]
            return w._replace(claims=tuple(ended))
        case ('end quota', _):
            return w._replace(quota=False)
        case ('answer', _):  # of the row
            return w._replace(answers=w.answers | {DONE if w.row == DONE else FAILED})


def claims_first(w, one):
    """The order of steps before: the claims end, whatever they are, then the row is written, and
    the caller is told what was decided."""
    if one.step == 'find' and one.told == FAILED and w.row == QUEUED:
        yield 'ends its claims', w._replace(claims=(NONE, NONE)), one._replace(step='write')
    elif one.step == 'write' and one.told == FAILED:
        row = FAILED if w.row == QUEUED else w.row
        quota = w.quota and row == DONE
        yield 'answers', w._replace(row=row, quota=quota, answers=w.answers | {FAILED}), None
    else:
        yield from row_first(w, one)


# Users, and what goes wrong.


def users(w):
    if w.row == QUEUED and w.cancels:
        yield 'it is cancelled', w._replace(row=CANCELLED, cancels=0, answers=w.answers | {FAILED})
    if w.row == DONE and w.cancels and CONFIRMED in w.claims:
        host = w.claims.index(CONFIRMED)
        yield (
            'it is deleted',
            w._replace(deletes=put(w.deletes, host, LEAVES), is_deleted=True, cancels=0),
        )


def faults(w):
    if w.flavor and w.fallback < MOST:
        yield 'it falls back', w._replace(flavor=w.flavor - 1, fallback=w.fallback + 1)
    if w.twice:
        yield 'it comes again', w._replace(flavor=w.flavor + 1, twice=0)
    if w.expiries and PENDING in w.claims:
        ended = tuple(NONE if one == PENDING else one for one in w.claims)
        yield 'a claim expires', w._replace(claims=ended, expiries=0)
    if not w.stops:
        return
    for host in HOSTS:
        if w.nodes[host] in (CLAIMED, BUILT, CONFIRMS):
            # As Worker.recover: what is confirmed stays.
            now = RUNS if w.claims[host] == CONFIRMED else IDLE
            yield (
                f'worker {host} restarts',
                w._replace(nodes=put(w.nodes, host, now), flavor=w.flavor + 1, stops=0),
            )
    for place, one in enumerate(w.managers):
        if one is not None:
            back = {}
            if one.message == 'fallback':
                back = {'fallback': w.fallback + 1}
            elif one.message != 'upkeep':
                back = {'results': tuple(sorted({*w.results, one.message}))}
            yield (
                f'manager {place} restarts',
                w._replace(managers=put(w.managers, place, None), stops=0, **back),
            )


# What must hold.


def wrong(w, before):
    """What is wrong in a state, whichever way led there; None: nothing."""
    if w.claims.count(CONFIRMED) > 1:
        return 'two workers have confirmed'
    if w.answers - {DONE if w.row == DONE else FAILED}:
        return f'it is {w.row}, and the answers are {sorted(w.answers)}'
    for host in HOSTS:
        if w.nodes[host] == RUNS and w.claims[host] != CONFIRMED:
            return f'it runs on host {host} without a claim'
        if before.claims[host] == CONFIRMED != w.claims[host] and w.deletes[host] != GONE:
            return f'the confirmed claim on host {host} has ended'
    return None


def wrong_in_the_end(w):
    """Nothing happens any more. A pending claim that nobody builds for expires."""
    runs = w.nodes.count(RUNS)
    if w.row == DONE and not w.is_deleted:
        if (runs, w.quota) != (1, True):
            return f'it is done, runs {runs} times, and holds quota: {w.quota}'
    elif runs or w.quota or CONFIRMED in w.claims:
        return f'it is {w.row}, runs {runs} times, and holds quota: {w.quota}'
    return None


def explore(order, first):
    return explored(
        first,
        lambda w: [*workers(w), *managers(w, order)],
        lambda w: [*users(w), *faults(w)],
        wrong,
        wrong_in_the_end,
    )


def explored(first, going_on, others, wrong, wrong_in_the_end):
    """Return the number of states, and the shortest way to a wrong one with what is wrong.

    ``going_on`` and ``others`` return (event, state after it): what happens by itself, and what
    need not happen.
    """
    came = {first: (None, '')}
    left = collections.deque([first])
    while left:
        w = left.popleft()
        goes_on = going_on(w)
        if not goes_on and (why := wrong_in_the_end(w)):
            return len(came), way(came, w), why
        for what, after in (*goes_on, *others(w)):
            if after in came:
                continue
            came[after] = w, what
            if why := wrong(after, w):
                return len(came), way(came, after), why
            left.append(after)
    return len(came), [], None


def way(came, w):
    found = []
    while came[w][0] is not None:
        w, what = came[w]
        found.append(what)
    return found[::-1]


@pytest.mark.parametrize(
    'least, goes_wrong',
    [
        pytest.param(500, {'expiries': 1, 'cancels': 1}, id='an expiry and a delete'),
        pytest.param(5_000, {'twice': 1, 'cancels': 1}, id='a copy and a delete'),
        pytest.param(5_000, {'stops': 1, 'cancels': 1}, id='a stop and a delete'),
        pytest.param(5_000, {'twice': 1, 'stops': 1}, id='a copy and a stop'),
        pytest.param(
            500_000,
            {'twice': 1, 'stops': 1, 'expiries': 1, 'cancels': 1},
            marks=ONLY_THOROUGH,
            id='all of them',
        ),
    ],
)
def test_all_orders_of_events_around_a_create(least, goes_wrong):
    states, found, why = explore(row_first, World(**goes_wrong))
    assert why is None, '\n'.join([f'{why}, after:', *found])
    assert states > least


def test_the_order_of_steps_before_is_found_wrong():
    """A manager ends the claims of the job that it gives up, and answers what it has decided."""
    _, found, why = explore(claims_first, World(twice=1))
    assert why == 'the confirmed claim on host 0 has ended'
    assert len(found) == 8


@pytest.mark.parametrize('told', [DONE, FAILED])
@pytest.mark.parametrize('state', [DONE, FAILED, CANCELLED])
def test_a_row_that_has_ended_stays_as_it_is(state, told):
    now, then = consequences(state, told, 0, False)
    assert now == state
    assert then.answer == (DONE if state == DONE else FAILED)
