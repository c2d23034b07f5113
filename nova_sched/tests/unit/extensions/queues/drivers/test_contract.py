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
"""What every driver of jobs keeps to, which ones there are, and the one that only waits."""

import threading
import time

import pytest

from nova_sched import errors
from nova_sched.extensions.queues import drivers
from nova_sched.extensions.queues.drivers import DriverSettings
from nova_sched.extensions.queues.drivers.fake import Fake
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each_afresh, table
from nova_sched.tests.unit.extensions.queues.node.doubles import job

NAMES = ['exec', 'fake']


def test_drivers_are_found_by_their_entry_points():
    assert [drivers.find(name).__module__.rpartition('.')[2] for name in NAMES] == NAMES


def test_an_unknown_driver_is_refused_with_the_known_ones():
    with pytest.raises(
        errors.BadConfig, match=r'no driver is named libvirt; there are .*exec, fake'
    ):
        drivers.find('libvirt')


@pytest.fixture(params=NAMES)
def make(request):
    """Make a driver that does all that is asked (True), or nothing."""

    def made(does):
        wanted = drivers.DriverSettings(
            fake_failures=0.0 if does else 1.0,
            exec_command='true' if does else 'false',
            exec_timeout_s=30,
        )
        return drivers.find(request.param)(wanted, 'host')

    return made


CALLS = {
    'create': lambda driver: driver.create(job(), job().spec),
    'resize': lambda driver: driver.resize(job(kind='resize'), job().spec),
    'migrate': lambda driver: driver.migrate(job(kind='migrate', source='b'), job().spec, 'b'),
}


@pytest.mark.parametrize('call', CALLS.values(), ids=CALLS)
def test_what_works_returns(make, call):
    assert call(make(True)) is None


@pytest.mark.parametrize('call', CALLS.values(), ids=CALLS)
def test_what_fails_names_the_host_and_a_reason(make, call):
    with pytest.raises(errors.BuildFailed) as failed:
        call(make(False))
    host, why = failed.value.args
    assert (host, bool(why)) == ('host', True)


@each_afresh('given', {'a delete': job(kind='delete'), 'no job': None})
def test_what_is_not_there_can_be_destroyed(make, given):
    assert make(True).destroy(given, uuid_of('server')) is None


def test_a_driver_can_be_closed_twice(make):
    driver = make(True)
    driver.close()
    assert driver.close() is None


# The driver that only waits.


def fails(driver, name):
    try:
        driver.create(job(name), job().spec)
    except errors.BuildFailed:
        return True
    return False


def failures(share, host='a', seed=0, count=400):
    driver = Fake(DriverSettings(fake_failures=share, seed=seed), host)
    return [number for number in range(count) if fails(driver, str(number))]


@table(
    'share, least, most',
    {
        'none': (0.0, 0, 0),
        'a tenth': (0.1, 20, 60),
        'half': (0.5, 160, 240),
        'all': (1.0, 400, 400),
    },
)
def test_the_configured_share_fails(share, least, most):
    assert least <= len(failures(share)) <= most


def test_the_same_jobs_fail_each_time():
    assert failures(0.3) == failures(0.3)


def test_other_jobs_fail_on_another_host_and_with_another_seed():
    assert failures(0.3) != failures(0.3, host='b')
    assert failures(0.3) != failures(0.3, seed=1)


def test_it_knows_what_it_has_built():
    driver = Fake(DriverSettings(), 'a')
    driver.create(job('one'), job().spec)
    driver.migrate(job('two', kind='migrate'), job().spec, 'b')
    driver.destroy(None, uuid_of('one'))
    assert driver.instances == {uuid_of('two')}


def test_a_job_takes_its_time():
    driver = Fake(DriverSettings(fake_seconds=0.05), 'a')
    begin = time.monotonic()
    driver.create(job(), job().spec)
    assert time.monotonic() - begin >= 0.05


def test_no_thread_waits_for_a_driver_that_is_closed():
    driver = Fake(DriverSettings(fake_seconds=600.0), 'a')
    thread = threading.Thread(target=driver.create, args=(job(), job().spec))
    thread.start()
    driver.close()
    thread.join(60)
    assert not thread.is_alive()
