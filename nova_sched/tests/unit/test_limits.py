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
"""Tests of where limits come from; Keystone is a small one of our own, asked over HTTP by
oslo.limit."""

import types

import pytest

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.conf.quota import PLANS
from nova_sched.db.jobs import SqlJobTable
from nova_sched.limits import KEPT_S, MAX_CACHED, limits
from nova_sched.tests.keystone import ENDPOINT, Keystone, forget, served
from nova_sched.tests.unit.db.jobs import entry, hold

# What openstacksdk says of itself.
pytestmark = pytest.mark.filterwarnings('ignore::openstack.warnings.RemovedInSDK50Warning')

REGISTERED = {'servers': 10, 'class:VCPU': 20}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


class Own:
    """A job table's table of limits."""

    def __init__(self, **own):
        self.own, self.asked = own, []

    def limits(self, project_id):
        self.asked.append(project_id)
        return self.own.get(project_id, {})


def conf_of(driver, **defaults):
    return types.SimpleNamespace(quota=types.SimpleNamespace(driver=driver, limits=defaults))


@pytest.fixture
def keystone():
    with served(Keystone(REGISTERED, {'p': {'servers': 3, 'class:DISK_GB': -1}})) as made:
        yield made


@pytest.fixture
def configured(tmp_path):
    """``configured(text)`` is CONF with this text as its file."""
    file = tmp_path / 'nova_sched.conf'

    def read(text):
        file.write_text(text)
        CONF(['--config-file', str(file)], project='nova_sched')
        return CONF

    yield read
    forget()


@pytest.mark.parametrize(
    'project, wanted',
    [
        pytest.param('q', {'servers': 10, 'cores': 5}, id='defaults'),
        pytest.param('p', {'servers': -1, 'cores': 5, 'class:VCPU': 2}, id='own ones go before'),
    ],
)
def test_limits_of_the_table(project, wanted):
    own = Own(p={'servers': -1, 'class:VCPU': 2})
    assert limits(conf_of('table', servers=10, cores=5), own)(project) == {**PLANS, **wanted}


def test_plans_have_limits_whatever_an_operator_names():
    own, named = Own(p={'group_members': 7}), {'planned_servers': 3, 'exclusive_domains': -1}
    found = limits(conf_of('table', **named), own)
    assert found('q') == {**PLANS, **named}
    assert found('p') == {**PLANS, **named, 'group_members': 7}
    assert all(most > 0 for most in PLANS.values())


def test_no_limits():
    own = Own(p={'servers': 1})
    assert limits(conf_of('none', servers=10), own)('p') == {}
    assert own.asked == []


def test_an_answer_is_kept_for_some_seconds():
    own, clock = Own(p={'servers': 1}), Clock()
    ask = limits(conf_of('table'), own, clock)
    first, again, other = ask('p'), ask('p'), ask('q')
    assert (first['servers'], again['servers'], 'servers' in other) == (1, 1, False)
    assert own.asked == ['p', 'q']
    own.own = {'p': {'servers': 2}}
    clock.now_s += KEPT_S - 0.1
    assert ask('p')['servers'] == 1
    clock.now_s += 0.1
    assert ask('p')['servers'] == 2


def test_answers_for_many_projects_do_not_pile_up():
    ask = limits(conf_of('table'), Own(), Clock())
    for number in range(MAX_CACHED + 10):
        ask(str(number))
    assert len(ask._cache) == 10


def test_limits_of_keystone(configured, keystone):
    ask = limits(configured(keystone.config()), Own(p={'servers': 99}))
    assert dict(ask('p')) == {**PLANS, 'servers': 3, 'class:VCPU': 20, 'class:DISK_GB': -1}
    assert dict(ask('q')) == {**PLANS, **REGISTERED}
    assert ask('q').get('class:MEMORY_MB', -1) == 0


def test_keystone_is_asked_again_after_some_seconds(configured, keystone):
    clock = Clock()
    ask = limits(configured(keystone.config()), Own(), clock)
    first, count = ask('p')['servers'], len(keystone.asked)
    assert (ask('p')['servers'], len(keystone.asked)) == (first, count)
    keystone.own['p']['servers'] = 7
    clock.now_s += KEPT_S
    assert (ask('p')['servers'], len(keystone.asked)) == (7, count + 2)


BROKEN = [
    pytest.param(
        (500, '{"error": {"code": 500, "message": "no", "title": "no"}}'), id='by its own word'
    ),
    pytest.param((503, '<html>Sorry</html>'), id='by the word of a proxy'),
    pytest.param((200, ''), id='without a word'),
]


@pytest.mark.parametrize('broken', BROKEN)
def test_a_broken_keystone_and_a_mended_one(configured, keystone, broken):
    ask = limits(configured(keystone.config()), Own())
    keystone.broken = broken
    with pytest.raises(errors.LimitsUnknown) as away:
        ask('p')
    assert away.value.project == 'p'
    keystone.broken = None
    assert ask('p')['servers'] == 3


def test_without_keystone_nothing_is_reserved(configured, database):
    with served(Keystone(REGISTERED)) as gone:
        text = gone.config()
    job_table = SqlJobTable(database)
    with pytest.raises(errors.LimitsUnknown):
        job_table.open([entry()], [hold()], limits(configured(text), job_table))
    assert job_table.usage('p') == {}
    assert job_table.list() == []


@pytest.mark.parametrize('broken', BROKEN)
def test_a_keystone_that_breaks_later(configured, keystone, broken):
    clock = Clock()
    ask = limits(configured(keystone.config()), Own(), clock)
    ask('p')
    keystone.broken = broken
    clock.now_s += KEPT_S
    with pytest.raises(errors.LimitsUnknown):
        ask('p')


def test_keystone_that_goes_away_later(configured):
    clock = Clock()
    with served(Keystone(REGISTERED)) as there:
        ask = limits(configured(there.config()), Own(), clock)
        assert ask('p')['servers'] == 10
    assert ask('p')['servers'] == 10
    clock.now_s += KEPT_S
    with pytest.raises(errors.LimitsUnknown):
        ask('p')


@pytest.mark.parametrize(
    'before, after, why',
    [
        pytest.param(
            f'endpoint_id = {ENDPOINT}',
            'endpoint_id = x',
            "Can't find endpoint for x",
            id='endpoint',
        ),
        pytest.param(
            f'endpoint_id = {ENDPOINT}\n', '', 'service_type or service_name', id='no endpoint'
        ),
    ],
)
def test_a_configuration_that_keystone_cannot_answer(configured, keystone, before, after, why):
    ask = limits(configured(keystone.config().replace(before, after)), Own())
    with pytest.raises(errors.BadConfig, match=why):
        ask('p')


@pytest.mark.parametrize('model', ['strict-two-level', 'other'])
def test_an_unsupported_enforcement_model(configured, keystone, model):
    keystone.model = model
    with pytest.raises(errors.BadConfig, match=r'\[oslo_limit\]'):
        limits(configured(keystone.config()), Own())('p')


def test_keystone_is_not_waited_for_for_ever(configured, keystone):
    conf = configured(keystone.config())
    limits(conf, Own())
    assert conf.oslo_limit.timeout == 10
    limits(configured(keystone.config() + 'timeout = 3\n'), Own())
    assert conf.oslo_limit.timeout == 3
