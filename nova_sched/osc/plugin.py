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

"""What the `openstack` client asks of a plug-in."""

from keystoneauth1 import adapter
from osc_lib import utils

from nova_sched.osc.client import SERVICE_TYPE, SchedulerApi

API_NAME = 'server_scheduling'
API_VERSION_OPTION = 'os_server_scheduling_api_version'
API_VERSIONS = ('1',)
DEFAULT_API_VERSION = '1'
TIMEOUT_S = 60  # for an answer, if the cloud's configuration has no api_timeout


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
    """Adds the option for the version of the API."""
    parser.add_argument(
        '--os-server-scheduling-api-version',
        metavar='<server-scheduling-api-version>',
        default=utils.env('OS_SERVER_SCHEDULING_API_VERSION'),
        help=f'version of the server scheduling API, {DEFAULT_API_VERSION} by default '
        '(Env: OS_SERVER_SCHEDULING_API_VERSION)',
    )
    return parser
