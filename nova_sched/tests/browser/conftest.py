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

"""A cloud, a browser, and pages of it that watch what they load and what they complain about."""

import contextlib
import pathlib

import pytest
from playwright.sync_api import expect, sync_playwright

from nova_sched.conf import CONF
from nova_sched.tests.browser.cloud import Cloud
from nova_sched.tests.browser.surfer import WAIT_MS, launched, logged_in

expect.set_options(timeout=WAIT_MS)
DATA = pathlib.Path(__file__).resolve().parents[1] / 'data'


def pytest_collection_modifyitems(items):
    """The first test also waits for the cloud, which takes minutes on a busy machine."""
    for item in items:
        item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope='session')
def cloud(tmp_path_factory):
    CONF([], project='nova_sched', default_config_files=[], default_config_dirs=[])
    with Cloud(tmp_path_factory.mktemp('cloud')).running() as made:
        made.load()
        yield made


@pytest.fixture(scope='session')
def browser():
    with sync_playwright() as playwright, contextlib.closing(launched(playwright)) as made:
        yield made


@pytest.fixture
def surfer(cloud, browser):
    """``surfer(user, project)`` is a page after the login. At the end of the test none has
    complained, and none has asked another server."""
    with contextlib.ExitStack() as stack:

        def made(user='admin', project='operators', **options):
            return stack.enter_context(logged_in(browser, cloud.url, user, project, **options))

        yield made


@pytest.fixture(scope='session')
def axe():
    """``axe(page)`` returns the serious and critical violations on a page: ids with the HTML."""
    source = (DATA / 'axe-core' / 'axe.min.js').read_text()

    def found(page):
        page.evaluate(source)
        told = page.evaluate('axe.run()')['violations']
        return {
            one['id']: [node['html'] for node in one['nodes']]
            for one in told
            if one['impact'] in ('serious', 'critical')
        }

    return found


@pytest.fixture
def operator(surfer):
    return surfer()
