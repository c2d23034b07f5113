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
"""Clients of the cloud's services, which log in with keystoneauth."""

from keystoneauth1 import exceptions, loading
from keystoneauth1 import session as keystone_session

from nova_sched import errors
from nova_sched.conf import keystone as conf_keystone


def adapter(conf, group, connections, **words):
    """An adapter of the keystoneauth options of this group, with ``connections`` that are kept.
    Raises BadConfig; sends no request. ``words`` are more arguments of the adapter."""
    if section := conf[group].auth_section:  # this group has the account
        conf.register_opts(conf_keystone.auth_options(), group=section)
    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        session = loading.load_session_from_conf_options(conf, group, auth=auth)
        made = loading.load_adapter_from_conf_options(conf, group, session=session, **words)
    except (exceptions.ClientException, ValueError, OSError) as error:
        raise errors.BadConfig(f'[{group}]', str(error)) from error
    if auth is None:
        raise errors.BadConfig(f'[{section or group}] auth_type', 'it is not set')
    keep = keystone_session.TCPKeepAliveAdapter(pool_maxsize=connections)
    for scheme in ('http://', 'https://'):
        session.session.mount(scheme, keep)
    return made
