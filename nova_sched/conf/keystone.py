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
"""Options of keystoneauth, for groups of options about a service of the cloud."""

import copy


def options(service_type):
    """The options of a session, an adapter and an authentication plugin, with Nova's defaults."""
    from keystoneauth1 import loading  # late: it takes long, and few commands need it

    defaults = {'service-type': service_type, 'valid-interfaces': ['internal', 'public']}
    opts = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    for option in opts:
        if option.name in defaults:
            option.default = copy.copy(defaults[option.name])
    return [*_with_sentences(opts), *auth_options()]


def auth_options():
    """The options that name an authentication plugin."""
    from keystoneauth1 import loading  # late, as above

    return _with_sentences(loading.get_auth_common_conf_options())


def _with_sentences(opts):
    for option in opts:
        option.help = option.help.rstrip('. ') + '.'
    return opts
