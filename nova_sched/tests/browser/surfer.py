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

"""A headless Chromium, and a page of it after a login."""

import contextlib
import os
import time

CHROMIUM = os.environ.get('CHROMIUM', '/usr/bin/chromium')
OPTIONS = (
    '--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking '
    '--disable-component-update --disable-sync'
).split()
SIZE = {'width': 1280, 'height': 800}


def launched(playwright):
    return playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)


@contextlib.contextmanager
def logged_in(browser, url, user, project, scheme='light'):
    """A page; at the end it has not complained, and has asked no other server."""
    context = browser.new_context(viewport=SIZE, color_scheme=scheme)
    page = context.new_page()
    complaints, asked = [], []
    page.on('console', lambda one: complaints.append(one.text) if one.type == 'error' else None)
    page.on('pageerror', lambda error: complaints.append(str(error)))
    page.on('request', lambda one: asked.append(one.url))
    page.set_default_timeout(20_000)
    try:
        page.goto(f'{url}/')
        page.get_by_label('User').fill(user)
        page.get_by_label('Project').fill(project)
        page.get_by_role('button', name='Log in').click()
        page.get_by_role('button', name='Log out').wait_for()
        yield page
        assert complaints == []
        assert [one for one in asked if not one.startswith(url)] == []
    finally:
        context.close()


def show(page, host, wanted):
    """Show a host beside the map until it has what a locator finds: hosts are some seconds old."""
    page.wait_for_selector('#map[data-drawn]')
    deadline_s = time.monotonic() + 60
    while not wanted.count() and time.monotonic() < deadline_s:
        page.locator('#find').fill(host)
        with page.expect_response(lambda one: '/cluster/host?' in one.url):
            page.locator('#find').dispatch_event('change')
        page.wait_for_timeout(500)
