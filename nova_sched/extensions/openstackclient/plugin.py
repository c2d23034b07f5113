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

"""What the `openstack` client asks of a plug-in, and the scheduler's REST API over its session:
with errors of one sentence, and columns without invisible characters."""

import urllib.parse

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_errors
from osc_lib import exceptions, utils
from osc_lib.cli import format_columns

from nova_sched import words
from nova_sched.extensions.heat import top_group_answers as answers

API_NAME = 'server_scheduling'
API_VERSION_OPTION = 'os_server_scheduling_api_version'
API_VERSIONS = ('1',)
DEFAULT_API_VERSION = '1'
SERVICE_TYPE = 'server-scheduling'
TIMEOUT_S = 60  # for an answer, if the cloud's configuration has no api_timeout
GROUPS, FLAVORS, QUEUES = '/v1/groups', '/v1/flavors', '/v1/queues'


def make_client(instance):
    """The SchedulerApi of the cloud that the user has named."""
    return SchedulerApi(
        adapter.Adapter(
            instance.session,
            service_type=SERVICE_TYPE,
            interface=instance.interface,
            region_name=instance.region_name,
            raise_exc=False,
        ),
        timeout_s=instance.session.timeout or TIMEOUT_S,
    )


def build_option_parser(parser):
    """Add the option for the version of the API."""
    parser.add_argument(
        '--os-server-scheduling-api-version',
        metavar='<server-scheduling-api-version>',
        default=utils.env('OS_SERVER_SCHEDULING_API_VERSION'),
        help=f'version of the server scheduling API, {DEFAULT_API_VERSION} by default '
        '(Env: OS_SERVER_SCHEDULING_API_VERSION)',
    )
    return parser


class Action:
    """A base of commands: their arguments, as functions that add one to a parser, and their
    SchedulerApi."""

    arguments = ()

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        for add in self.arguments:
            add(parser)
        return parser

    @property
    def api(self):
        return self.app.client_manager.server_scheduling


def option(*names, **words):
    """Return a function that adds this argument to a parser."""
    return lambda parser: parser.add_argument(*names, **words)


def _visible(column):
    """Return the class of columns with invisible characters escaped: texts may be of tenants."""

    class Visible(column):
        def human_readable(self):
            return words.visible(super().human_readable() or '')

    return Visible


DICT = _visible(format_columns.DictColumn)
LIST = _visible(format_columns.ListColumn)
DICTS = _visible(format_columns.ListDictColumn)


class SchedulerApi:
    """Requests to the API; answers are plain values in its form. All methods raise
    CommandError."""

    def __init__(self, http, timeout_s):
        self._http, self._timeout_s = http, timeout_s

    def pages(self, path, key, limit=None, **query):
        """All items of a list, page by page; with a ``limit`` the first ones only."""
        items, wanted = [], {**query, 'limit': limit}
        while True:
            page = self.ask('GET', path, wanted).json()
            items += page[key]
            following = [link['href'] for link in page.get('links', ()) if link['rel'] == 'next']
            if not following or (limit is not None and len(items) >= limit):
                return items[:limit]
            wanted = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(following[0]).query))

    def ask(self, method, path, query=None, **more):
        """The HTTP answer; entries of ``query`` that are None are left out."""
        sent = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        try:
            answer = self._http.request(path, method, params=sent, timeout=self._timeout_s, **more)
        except keystone_errors.ClientException as error:
            raise exceptions.CommandError(f'The scheduler cannot be asked: {error}') from None
        if answer.status_code >= 400:
            raise exceptions.CommandError(words.visible(answers.words(answer)))
        return answer


def _word(value):
    return str(value).lower() if isinstance(value, bool) else value


def at(path, *names):
    """The path of one item, with its name quoted."""
    return '/'.join([path, *(urllib.parse.quote(name, safe='') for name in names)])
