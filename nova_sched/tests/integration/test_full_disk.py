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
"""A database server whose disk is full: claims are made or refused, and nothing is left half
done."""

import contextlib
import shutil
import subprocess
import time

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claims import Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine, schema
from nova_sched.tests.builders import claim, still, uuid_of
from nova_sched.tests.fixtures import mariadb, postgresql
from nova_sched.tests.integration.test_store_errors import HOSTS, by_owner, done, stopped, uuids
from nova_sched.tests.unit.claims.batteries.steps import check_books, node, ready

SMALL_MB = 24


@pytest.fixture(params=['postgresql', 'mariadb'])
def small_disk(request, tmp_path):
    """URL of a new database on a server of its own, on a small disk of its own, and the disk's
    folder."""
    kind = {'postgresql': postgresql, 'mariadb': mariadb}[request.param]
    with kind.server() as server:
        name, user = 'small', {'postgresql': 'postgres', 'mariadb': 'mysql'}[request.param]
        if kind is postgresql:
            folder = server.log.parent / name
            folder.mkdir()
        else:
            by_owner(server, f'CREATE DATABASE {name} CHARACTER SET utf8mb4')
            folder = server.log.parent / 'data' / name
        mount = ['mount', '-t', 'tmpfs', '-o', f'size={SMALL_MB}m,mode=0777', 'tmpfs', str(folder)]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip('a disk is mounted by root alone')
        try:
            if kind is postgresql:
                shutil.chown(folder, user)
                place = f"CREATE TABLESPACE {name} LOCATION '{folder}'"
                by_owner(server, place, f'CREATE DATABASE {name} TABLESPACE {name}')
            yield sa.make_url(server.url).set(database=name).render_as_string(), folder
        finally:
            server.kill()
            subprocess.run(['umount', str(folder)], check=True)


def fill(folder):
    """Take all the room that is left; the file that has it."""
    path = folder / 'filler'
    with path.open('wb', buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    return path


def until_it_is_full(store):
    """Commit claims until one alone finds no room: those that were made, and that one.

    Where a page is full depends on the claim: of three that found no room together, two may find
    some alone.
    """
    made = []
    for turn in range(2000):
        more = [claimed(turn, host) for host in HOSTS]
        try:
            assert all(outcome.won for outcome in store.commit(more))
            made += more
        except errors.StoreFull:
            for one in more:
                if not finds_room(store, one):
                    return made, one
                made.append(one)
    raise AssertionError('there is always room')


def finds_room(store, placement):
    """Commit a claim, up to five times: the server frees the pages of undone transactions a
    moment later, or seconds later on a busy machine. Returns whether it was made."""
    for pause_s in (0.2, 0.5, 1.0, 2.0, 4.0):
        with contextlib.suppress(errors.StoreFull):
            assert store.commit([placement])[0].won
            return True
        time.sleep(pause_s)
    return False


def claimed(turn, host):
    return Placement((claim(uuid_of(f'instance {turn} {host}'), node(host)),))


def test_a_full_disk(small_disk):
    """Claims go into the room that their tables have left; the one after that is refused, for
    good."""
    url, folder = small_disk
    made = engine.create(url)
    schema.upgrade(made)
    store = SqlClaimStore(made, still)
    ready(store, *HOSTS, vcpus=10_000, memory_mb=10_000_000)
    filler = fill(folder)
    made_claims, one = until_it_is_full(store)
    assert done(store) == uuids(made_claims)
    refused = [one, *(claimed(-1, host) for host in HOSTS[1:])]
    for count in (1, 3):
        stopped(store, refused[:count], errors.StoreFull)
    check_books(store)
    filler.unlink()
    assert all(outcome.won for outcome in store.commit(refused))
    assert done(store) == uuids(made_claims + refused)
    check_books(store)
    made.dispose()
