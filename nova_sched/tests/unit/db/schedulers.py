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
"""What the list of schedulers is on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine on the newest schema, with empty
tables.
"""

import dataclasses

import pytest

from nova_sched.db.schedulers import SchedulerFacts, SqlSchedulers
from nova_sched.tests.builders import NOW, uuid_of

FIGURES = {'placed': 3, 'news_lag_s': 0.25, 'look_lag_s': None}


def one(name='one', host='host', pid=7, started_s=NOW, seen_s=NOW, figures=FIGURES):
    return SchedulerFacts(uuid_of(name), host, pid, started_s, seen_s, figures)


class Schedulers:
    @pytest.fixture
    def schedulers(self, database):
        return SqlSchedulers(database)

    def test_what_was_written_is_read_by_host_oldest_first(self, schedulers):
        late = one('late', started_s=NOW + 0.5)
        early = one('early')
        other = one('other', host='a host')
        for facts in (late, early, other):
            schedulers.write(facts)
        assert schedulers.alive(NOW) == [other, early, late]

    def test_a_later_sign_is_in_place_of_the_earlier(self, schedulers):
        schedulers.write(one())
        schedulers.write(one())
        later = one(seen_s=NOW + 3, figures={**FIGURES, 'placed': 4})
        schedulers.write(later)
        assert schedulers.alive(0.0) == [later]

    def test_who_gave_no_sign_since_then(self, schedulers):
        silent, alive = one('silent', seen_s=NOW - 1), one('alive')
        schedulers.write(silent)
        schedulers.write(alive)
        assert schedulers.alive(NOW) == [alive]
        schedulers.forget(NOW)
        assert schedulers.alive(0.0) == [alive]

    def test_one_that_ends_is_gone_and_may_be_back(self, schedulers):
        schedulers.write(one())
        schedulers.write(one('two'))
        schedulers.remove(uuid_of('one'))
        schedulers.remove(uuid_of('one'))
        assert schedulers.alive(0.0) == [one('two')]
        back = dataclasses.replace(one(), host='b')
        schedulers.write(back)
        assert schedulers.alive(0.0) == [back, one('two')]
