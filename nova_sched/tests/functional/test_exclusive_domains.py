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
"""A host that comes to an exclusive domain is closed to others with the message that brings it
there.

Two schedulers share a database. Neither polls it by itself, so neither sweeps.
"""

import pytest

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually, spec
from nova_sched.tests.functional.test_two_schedulers import two_daemons

TEMPLATE = """\
heat_template_version: 2021-04-16
resources:
  web:
    type: OS::Nova::Server
    properties:
      flavor: {vcpus: 2, ram: 512}
  app:
    type: OS::NovaSched::Group
    properties:
      members: [web]
      policies: [{type: exclusive, level: rack}]
"""
NEVER_S = 3600.0
TRIES = 6  # one after the other they go to both schedulers


@pytest.fixture(scope='module')
def started_two(bus_url, tmp_path_factory):
    with two_daemons(bus_url, tmp_path_factory.mktemp('two'), NEVER_S) as made:
        made.one.add('r1-a', 'r1-b', stats={'rack': 'r1'})
        yield made


@pytest.fixture
def cloud(started_two):
    """A client of both, with a group that has rack r1 for itself."""
    cloud = started_two.one
    for daemon in started_two.both:
        daemon.service.scheduler.call(daemon.service.scheduler.state_sync.refresh)
    made = cloud.groups.create(TEMPLATE, 'shop')
    yield cloud
    cloud.groups.delete(made.uuid)


def boot(cloud, name, host):
    """Ask for a server without a group on the host."""
    asked = spec(force_hosts=[host])
    return cloud.scheduler.select_destinations(asked, [uuid_of(name)])[0][0].service_host


def is_closed(cloud, host):
    for number in range(TRIES):
        with pytest.raises(errors.NoValidHost):
            boot(cloud, f'outsider {number}', host)


def test_the_first_report_of_a_host(cloud):
    cloud.add('new', stats={'rack': 'r1'})
    is_closed(cloud, 'new')


def test_a_host_that_changes_its_rack(cloud):
    cloud.add('moves', stats={'rack': 'r2'})
    assert boot(cloud, 'before', 'moves') == 'moves'
    cloud.add('moves', instances=[uuid_of('before')], stats={'rack': 'r1'})
    is_closed(cloud, 'moves')
    cloud.add('moves', instances=[uuid_of('before')], stats={'rack': 'r2'})
    assert eventually(lambda: comes_back(cloud, 'after', 'moves')) == 'moves'


def comes_back(cloud, name, host):
    """One of both has to learn of the report by being refused."""
    try:
        return boot(cloud, name, host)
    except errors.NoValidHost:
        return None


def test_an_aggregate_brings_a_host(cloud):
    cloud.add('apart')
    fences = {row[1]: row for row in cloud.table('nodes')}
    racks = [
        objects.Aggregate(
            id=7, uuid=uuid_of('r1'), name='r1', hosts=['apart'], metadata={'rack': 'r1'}
        )
    ]
    cloud.scheduler.update_aggregates(racks)
    eventually(lambda: {row[1]: row for row in cloud.table('nodes')} != fences)
    is_closed(cloud, 'apart')
