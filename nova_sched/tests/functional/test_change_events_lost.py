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
"""Schedulers where news cannot be told, and some that end; no other daemon is on the bus
meanwhile."""

import threading

from nova_sched.tests.functional.test_change_events import two_daemons


def test_both_go_on_where_news_cannot_be_told(bus_url, tmp_path, caplog):
    with two_daemons(bus_url, tmp_path, refresh_s=0.1, deaf=True) as two:
        two.add('a', 'b')
        for number in range(4):
            two.one.boot(f'instance {number}')
        two.all_know(lambda cluster: sum(len(node.claims) for node in cluster) == 4)
        assert sum(daemon.figures.news_dropped for daemon in two.both) > 0
        assert sum(daemon.figures.news_heard for daemon in two.both) == 0
    assert 'Change events of other schedulers are not received' in caplog.text
    assert 'other schedulers read the changes from the database' in caplog.text


def test_one_that_is_stopped_leaves_nothing_behind(bus_url, tmp_path):
    before = set(threading.enumerate())
    with two_daemons(bus_url, tmp_path) as two:
        database = two.one
        assert 'nova-sched-changes' in [thread.name for thread in threading.enumerate()]
        assert len(database.table('schedulers')) == 2
    assert database.table('schedulers') == []
    left = [thread.name for thread in set(threading.enumerate()) - before]
    assert [name for name in left if name.startswith('nova-sched')] == []
