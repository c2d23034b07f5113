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

"""Makes the pictures of the manual: ``python -m nova_sched.tests.browser FOLDER``."""

import pathlib
import sys
import tempfile

from playwright.sync_api import sync_playwright

from nova_sched.conf import CONF
from nova_sched.tests.browser.cloud import REFUSED, Cloud
from nova_sched.tests.browser.surfer import launched, logged_in, show


def main():
    folder = pathlib.Path(sys.argv[1])
    CONF([], project='nova_sched', default_config_files=[], default_config_dirs=[])
    with tempfile.TemporaryDirectory() as state, Cloud(state).running() as cloud:
        cloud.load(240)
        with sync_playwright() as playwright:
            browser = launched(playwright)
            with logged_in(browser, cloud.url, 'admin', 'operators') as page:
                _light(page, cloud, folder)
            with logged_in(browser, cloud.url, 'admin', 'operators', scheme='dark') as page:
                _map(page)
                page.screenshot(path=folder / 'dashboard-dark.png')
            browser.close()


def _map(page):
    page.wait_for_selector('#map[data-drawn]')
    page.locator('#find').fill('sim-z2-r3-n07')
    page.locator('#find').press('Tab')
    page.wait_for_selector('#host h2')


def _devices(page, cloud, folder):
    """The host that has some, without what is above and below its hardware."""
    for count in (2, 3):
        cloud.attach(count)
    show(page, cloud.rich, page.locator('.devices .claimed').nth(4))
    side = page.locator('#host')
    side.evaluate('one => one.classList.remove("side")')  # else it is as high as the window
    top, last = (
        side.locator('h3').first.bounding_box(),
        side.locator('.devices').last.bounding_box(),
    )
    clip = {'x': top['x'] - 12, 'y': top['y'] - 8, 'width': 400}
    clip['height'] = last['y'] + last['height'] + 8 - clip['y']
    page.screenshot(path=folder / 'dashboard-devices.png', full_page=True, clip=clip)
    page.reload()


def _light(page, cloud, folder):
    _map(page)
    page.screenshot(path=folder / 'dashboard-cluster.png')
    _devices(page, cloud, folder)
    request_id, group = cloud.refuse(), cloud.group()
    page.get_by_role('link', name='Decisions').click()
    page.locator('tr', has=page.get_by_title(request_id)).get_by_role('link').click()
    page.locator('.asks button').last.click()
    page.wait_for_selector('#verdicts table')
    page.screenshot(path=folder / 'dashboard-decision.png', full_page=True)
    page.get_by_role('link', name='What if').click()
    page.get_by_label('Servers').fill('3')
    page.get_by_role('button', name='Ask').click()
    page.wait_for_selector('#answer h2')
    page.screenshot(path=folder / 'dashboard-what-if.png')
    page.goto(f'{cloud.url}/groups/{group.uuid}')
    page.screenshot(path=folder / 'dashboard-group.png')
    page.get_by_role('link', name='Groups').click()
    page.get_by_label('Template').fill(REFUSED)
    page.get_by_role('button', name='Try').click()
    page.wait_for_selector('#tried h3')
    page.get_by_role('link', name='Schedulers').click()
    page.get_by_role('button', name='Compare').click()
    page.wait_for_selector('#audit .big')
    for _ in range(12):
        cloud.load(6)
    page.screenshot(path=folder / 'dashboard-schedulers.png')


if __name__ == '__main__':
    main()
