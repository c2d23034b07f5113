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

"""Each page in a browser: what a person does on it, and what comes of that."""

import re

import pytest
from playwright.sync_api import expect

from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.tests.browser.cloud import REFUSED
from nova_sched.tests.browser.surfer import show

PAGES = ('Cluster', 'Decisions', 'What if', 'Groups', 'Queues', 'Schedulers')


def drawn(page):
    page.wait_for_selector('#map[data-drawn]')
    return page


def test_the_map_follows_changes(operator, cloud):
    drawn(operator)
    expect(operator.locator('#summary')).to_contain_text('1 000 hosts')
    operator.evaluate('document.getElementById("cells").mark = 1')
    cloud.boot(TraceFlavor('m1.new', 32, 1024), 3)
    operator.wait_for_selector('#map[data-updates]')
    # The same canvas, and not drawn anew as a whole.
    assert operator.evaluate('document.getElementById("cells").mark') == 1
    assert 1 <= int(operator.get_attribute('#map', 'data-updates')) < 100


def test_filters(operator):
    drawn(operator)
    operator.get_by_label('State').select_option('disabled')
    expect(operator.locator('#summary')).to_contain_text(re.compile(r'^\d+ hosts: \d+ disabled'))
    operator.get_by_label('State').select_option('')
    operator.get_by_label('Aggregate').select_option('zone-2-rack-3')
    expect(operator.locator('#summary')).to_contain_text(re.compile(r'^4\d hosts'))


def test_a_host_by_the_keyboard(operator):
    drawn(operator)
    operator.locator('#cells').focus()
    for key in ('ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowUp'):
        operator.keyboard.press(key)
    expect(operator.locator('#at')).to_contain_text('zone-1')
    operator.keyboard.press('Enter')
    expect(operator.locator('#host h2')).to_contain_text('sim-z1')


def test_a_host_is_disabled_and_enabled(operator):
    drawn(operator)
    operator.locator('#find').fill('sim-z3-r1-n05')
    operator.locator('#find').press('Tab')
    operator.get_by_label('Reason').fill('a new fan')
    operator.get_by_role('button', name='Disable').click()
    expect(operator.locator('#host')).to_contain_text('a new fan')
    operator.get_by_role('button', name='Enable').click()
    expect(operator.locator('#host .state')).to_have_text('up')


def test_the_devices_of_a_host(operator, cloud, axe):
    request_id = cloud.attach(2)
    functions = operator.get_by_label('8086:154c, virtual function of ens1f0')
    claimed = functions.get_by_role('link', name='claimed by server')
    show(operator, cloud.rich, claimed)
    expect(claimed).to_have_count(2)
    expect(functions.locator('li')).to_have_count(16)
    assert axe(operator) == {}
    claimed.first.click()
    expect(operator.get_by_title(request_id)).to_be_visible()


def test_a_refusal_is_understood_in_three_clicks(operator, cloud):
    request_id = cloud.refuse()
    operator.get_by_role('link', name='Decisions').click()
    operator.locator('tr', has=operator.get_by_title(request_id)).get_by_role('link').click()
    expect(operator.locator('.reason')).to_contain_text('256 vCPUs asked')
    operator.locator('.asks button').last.click()
    expect(operator.locator('#verdicts')).to_contain_text('the host has 64 in all')


def test_new_decisions_appear(operator, cloud):
    operator.get_by_role('link', name='Decisions').click()
    request_id = cloud.refuse()
    operator.get_by_title(request_id).wait_for()


def test_a_search(operator, cloud):
    request_id = cloud.refuse('violet')
    operator.get_by_role('link', name='Decisions').click()
    operator.get_by_label('Search').fill('violet')
    operator.get_by_role('button', name='Search').click()
    expect(operator.locator('#rows tbody tr')).to_have_count(1)
    expect(operator.get_by_title(request_id)).to_be_visible()


def test_what_if(operator):
    operator.get_by_role('link', name='What if').click()
    operator.get_by_role('button', name='Ask').click()
    expect(operator.locator('#answer h2')).to_contain_text('1 server would go to 1 host')
    operator.get_by_label('vCPUs').fill('100')
    operator.get_by_role('button', name='Ask').click()
    expect(operator.locator('#answer')).to_contain_text('It would find hosts with 50 vCPUs')
    operator.get_by_text('Paste a flavor').click()
    operator.get_by_label('Flavor as JSON').fill('{"vcpus": 4, "ram": 1024, "disk": 0}')
    operator.get_by_role('button', name='Ask').click()
    expect(operator.locator('#answer h2')).to_contain_text('placed')


def test_a_group_on_the_map_and_a_refused_one(operator, cloud):
    group = cloud.group()
    operator.get_by_role('link', name='Groups').click()
    operator.get_by_label('Template').fill(REFUSED)
    operator.get_by_role('button', name='Try').click()
    expect(operator.locator('#tried')).to_contain_text('Policies that collide')
    operator.goto(f'{cloud.url}/groups/{group.uuid}')
    expect(operator.locator('.member.planned')).to_have_count(3)
    operator.get_by_role('link', name='3 hosts').click()
    drawn(operator)


def test_queues_and_schedulers(operator):
    operator.get_by_role('link', name='Queues').click()
    expect(operator.get_by_role('rowheader', name='m1.small').first).to_be_visible()
    operator.get_by_role('link', name='Schedulers').click()
    expect(operator.locator('#rate')).to_contain_text('a second now')
    operator.get_by_role('button', name='Compare').click()
    expect(operator.locator('#audit')).to_contain_text('1 000 nodes')


def test_a_project_sees_its_own(surfer, cloud):
    request_id = cloud.refuse('green')
    cloud.group('green')
    other = cloud.refuse('red')
    page = surfer('ann', 'green')
    assert page.locator('nav a').all_inner_texts() == ['Decisions', 'Groups', 'Queues']
    expect(page.get_by_title(request_id)).to_be_visible()
    expect(page.get_by_title(other)).to_have_count(0)
    page.get_by_title(request_id).click()
    expect(page.locator('.reason')).to_contain_text('ResourceCapacity removed the last hosts')
    assert 'sim-' not in page.content()
    page.get_by_role('link', name='Groups').click()
    page.get_by_role('link', name='shop').first.click()
    assert 'sim-' not in page.locator('main').inner_text()


def test_a_theme_is_kept(operator):
    operator.get_by_role('button', name='Dark').click()
    operator.reload()
    assert operator.get_attribute('html', 'data-theme') == 'dark'


def test_the_end_of_a_session(operator):
    operator.get_by_role('button', name='Log out').click()
    operator.get_by_role('button', name='Log in').wait_for()


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_no_hindrance_to_anybody(surfer, cloud, axe, scheme):
    """What axe-core finds serious or critical, on each page."""
    page = surfer(scheme=scheme)
    request_id, group = cloud.refuse(), cloud.group()
    found = {}
    for name in PAGES:
        with page.expect_navigation(wait_until='load'):  # with its style sheet
            page.get_by_role('link', name=name, exact=True).click()
        if name == 'Cluster':
            drawn(page).locator('#cells').focus()
            page.keyboard.press('Enter')
            page.wait_for_selector('#host h2')
        found[name] = axe(page)
    for path in (f'decisions/{request_id}', f'groups/{group.uuid}'):
        page.goto(f'{cloud.url}/{path}')
        found[path] = axe(page)
    page.get_by_role('button', name='Log out').click()
    page.get_by_role('button', name='Log in').wait_for()
    found['login'] = axe(page)
    assert {name: one for name, one in found.items() if one} == {}
