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
"""Decisions with ExitTimeWeigher against those without it, within one run."""

import dataclasses
import random

import numpy as np

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.engine.place import Placer
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.decisions import PLACED, Decide, Varied
from nova_sched.tests.bench.timing import in_random_order, row
from nova_sched.weighers.exit_time import ExitTimeWeigher

DAY_S = 86400.0
SIZES = (1_000, 10_000)


class Asked:
    """Requests of twelve flavors by turns, with these hints."""

    def __init__(self, hints):
        self._varied, self._hints = Varied(), hints

    def __call__(self):
        return dataclasses.replace(self._varied(), hints=self._hints)


def rows(budget_s=2.0, sizes=SIZES):
    settings = service.settings(CONF)
    CONF.set_override(ExitTimeWeigher.option, 0.1, 'filter_scheduler')
    try:
        for size in sizes:
            yield from _rows(size, settings, budget_s)
    finally:
        CONF.clear_override(ExitTimeWeigher.option, 'filter_scheduler')


def _rows(size, settings, budget_s):
    cluster = fleet.cluster(fleet.filled_store(size), settings)
    hosts = cluster.hosts
    hosts.exit_s[:] = hosts.now_s + np.random.default_rng(1).exponential(DAY_S, len(hosts))
    every = service.rules(CONF)
    others = tuple(one for one in every.weighers if not isinstance(one, ExitTimeWeigher))
    without = dataclasses.replace(every, weighers=others)
    told = Asked({'ttl': ['7200']})
    calls = {
        'without': Decide(Placer(cluster, without, random.Random(1)), settings, told),
        'told': Decide(Placer(cluster, every, random.Random(1)), settings, told),
    }

    def between():
        for one in calls.values():
            one.undo(PLACED)

    samples = in_random_order(calls, budget_s, between)
    for name, took in samples.items():
        yield row(f'decision, {size:,} hosts, ends {name}', took, 'without', samples['without'])
