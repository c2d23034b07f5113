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
"""What every program does first: read the configuration, set up the log, and say what is wrong with them."""

import logging
import sys

from oslo_config import cfg
from oslo_log import log

from nova_sched import errors, rpc, service
from nova_sched.conf import CONF

LOG = logging.getLogger(__name__)


def configure(argv=None, **kwargs):
    """Read the configuration and start logging. Returns CONF."""
    log.register_options(CONF)
    CONF(sys.argv[1:] if argv is None else argv, project='nova_sched', **kwargs)
    log.setup(CONF, 'nova_sched')
    return CONF


def check(conf):
    """Find out what the configuration lacks before a process is started on it. Raises BadConfig."""
    service.rules(conf)
    rpc.transport(conf).cleanup()
    if conf.claims.store == 'sql':
        try:
            service.database(conf).dispose()
        except errors.StoreUnavailable as error:
            LOG.warning('%s; the scheduler starts when it does', error)


def guarded(main):
    """Run a program; a bad configuration ends it with a sentence, not with a traceback."""
    try:
        return main() or 0
    except (errors.SchedError, cfg.Error) as error:
        print(f'{sys.argv[0].rpartition("/")[2]}: {error}', file=sys.stderr)
        return 1
