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
"""Chooses native or green threads, before any other import: the programs begin here."""

import os
import sys
import warnings

from oslo_config import cfg


def run_daemon(main):
    """Run a daemon on the backend of its configuration. Return its exit status; ``main`` imports
    what the backend patches, and what uses it."""
    choose()
    from nova_sched.cmd import startup

    return startup.guarded(main, os.EX_CONFIG)


def choose(argv=None):
    """Read [DEFAULT] service_backend only, and select that backend. An invalid configuration ends
    the program."""
    argv = sys.argv[1:] if argv is None else argv
    conf = cfg.ConfigOpts()
    conf.register_opt(
        cfg.StrOpt('service_backend', default='threading', choices=['threading', 'eventlet'])
    )
    try:
        conf(config_arguments(argv), project='nova_sched')
        chosen = conf.service_backend
    except (cfg.Error, ValueError) as error:
        print(f'{sys.argv[0].rpartition("/")[2]}: {error}', file=sys.stderr)
        sys.exit(os.EX_CONFIG)
    if chosen == 'eventlet':
        import eventlet

        eventlet.monkey_patch()
    else:
        ignore_eventlet()
    from oslo_service import backend

    backend.init_backend(backend.BackendType(chosen))
    return chosen


def ignore_eventlet():
    """Prepare for libraries that import eventlet although nothing runs on it: it then loads no
    resolver of its own and shows no warning."""
    os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')
    warnings.filterwarnings('ignore', r'\s*Eventlet is deprecated')


def config_arguments(argv):
    """The arguments that name configuration files."""
    named = []
    for place, argument in enumerate(argv):
        if argument in ('--config-file', '--config-dir'):
            named += argv[place : place + 2]
        elif argument.startswith(('--config-file=', '--config-dir=')):
            named.append(argument)
    return named
