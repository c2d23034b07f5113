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
"""The REST API for a WSGI server such as uWSGI, gunicorn or mod_wsgi: the import makes
``application``.

It reads the configuration files of the daemons, or those that OS_NOVA_SCHED_CONFIG_FILES names,
separated by semicolons.
"""

import os

from nova_sched.cmd import backend

FILES = 'OS_NOVA_SCHED_CONFIG_FILES'


def _made():
    argv = [f'--config-file={path}' for path in os.environ.get(FILES, '').split(';') if path]
    backend.choose(argv)
    # Imported after the backend is chosen: these modules import what it patches.
    from nova_sched import errors, rpc
    from nova_sched.cmd import api, startup

    conf = startup.configure(argv)
    bus = rpc.transport(conf)
    if api.is_alone(conf):
        why = (
            'over fake:// no scheduler can be reached from here; run nova-sched-api, which '
            'includes a scheduler'
        )
        raise errors.BadConfig('[DEFAULT] transport_url', why)
    return api.everything(conf, bus)


application = _made()
