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
"""The bus itself: heartbeats, calls that take long, many calls at once, and who is on the other
side."""

import collections
import contextlib
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import oslo_messaging as messaging
import pytest
from nova import exception
from nova.baserpc import BaseAPI

from nova_sched.tests.nova_client import daemon as our
from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.settings import options

MONITOR_S = 4  # two heartbeats; a busy machine may delay one


def test_nova_is_not_there_where_the_daemon_runs(daemon):
    probe = 'import importlib.util as u, sys; sys.exit(u.find_spec("nova") is not None)'
    assert (
        subprocess.run([daemon.python, '-c', probe], cwd=daemon.log.parent, check=False).returncode
        == 0
    )


@pytest.mark.parametrize('said', ['hello', {'deep': [1, None, 'two']}], ids=['text', 'nest'])
def test_ping(daemon, context, said):
    answer = BaseAPI('scheduler').ping(context, said, timeout=60)
    assert answer == {'service': 'scheduler', 'arg': said}


def test_there_is_no_back_door(daemon, context):
    assert BaseAPI('scheduler').get_backdoor_port(context, our.HOST) is None


def test_the_log_names_the_request_and_keeps_the_token(cloud, boot, context, daemon, eventually):
    cloud.add()
    boot()
    # The daemon may answer before it logs.
    eventually(True, lambda: f'Decided {context.request_id}' in daemon.said())
    assert context.auth_token not in daemon.said()


@contextlib.contextmanager
def silence(database):
    """No other connection writes to the database until the block ends, or until the function that
    the block gets is called."""
    connection = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    with contextlib.closing(connection):
        connection.execute('BEGIN EXCLUSIVE')
        yield connection.rollback


def test_a_long_call_stays_alive(cloud, scheduler, context, daemon):
    """The claim waits for the database longer than the conductor waits for a heartbeat."""
    node = cloud.add()
    asked = specs.uuids(1)
    request = specs.spec(context, asked)
    with (
        silence(daemon.database) as end,
        options(rpc_response_timeout=MONITOR_S, long_rpc_timeout=60),
    ):
        begin_s = time.monotonic()
        threading.Timer(3 * MONITOR_S, end).start()
        ((selection,),) = scheduler.select_destinations(
            context, request, asked, return_objects=True
        )
        assert time.monotonic() - begin_s >= 3 * MONITOR_S
    assert [selection.service_host] == [node.host] == cloud.placed(asked)


def test_a_caller_that_gives_up_is_served_all_the_same(
    cloud, scheduler, context, daemon, eventually
):
    node = cloud.add()
    asked = specs.uuids(1)
    request = specs.spec(context, asked)
    with (
        silence(daemon.database),
        options(rpc_response_timeout=30, long_rpc_timeout=MONITOR_S),
        pytest.raises(messaging.MessagingTimeout),
    ):
        scheduler.select_destinations(context, request, asked, return_objects=True)
    eventually([node.host], lambda: cloud.placed(asked))


def test_more_servers_at_once_than_there_is_room_for(cloud, hosts):
    nodes = cloud.add(4, vcpus=6)
    asked = specs.uuids(40)

    def one(uuid):
        try:
            return hosts(instance_uuids=[uuid])[0]
        except exception.NoValidHost:
            return None

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(one, asked))
    assert collections.Counter(found) == {None: 16} | {node.host: 6 for node in nodes}
    assert collections.Counter(cloud.placed(asked)) == {node.host: 6 for node in nodes}
