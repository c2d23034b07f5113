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
"""Common start of every program: read the configuration, set up the log, and report errors of
both."""

import contextlib
import importlib.metadata
import logging
import sys

from oslo_config import cfg

from nova_sched import conf as options
from nova_sched import errors, logs, words
from nova_sched.cmd.backend import config_arguments
from nova_sched.conf import CONF, services
from nova_sched.conf.cluster import reads_nova

LOG = logging.getLogger(__name__)

# They log each attempt to connect to the bus.
RETRYING = (
    'oslo.messaging._drivers.impl_rabbit',
    'nova_sched.rpc.rabbit',
)
POOL = 'sqlalchemy.pool.impl.QueuePool'  # logs what happens to connections of databases


def configure(argv=None, **kwargs):
    """Read the configuration and start logging. Return CONF. Raises BadConfig or cfg.Error."""
    from oslo_log import log  # late: commands need ``guarded`` only

    from nova_sched.cmd import log_format

    log.register_options(CONF)
    argv = sys.argv[1:] if argv is None else argv
    CONF(argv, project='nova_sched', version=importlib.metadata.version('nova-sched'), **kwargs)
    try:
        log.setup(CONF, 'nova_sched')
    except (OSError, log.LogConfigError) as error:
        raise errors.BadConfig('options of the log', str(error)) from None
    log_format.install()
    for name in RETRYING:
        logging.getLogger(name).addFilter(logs.RetryFilter())
    logging.getLogger('amqp').addFilter(logs.ChannelCloseFilter())
    logging.getLogger(POOL).addFilter(logs.PoolResetFilter())
    return CONF


def check(conf):
    """Check the configuration before a process starts. Raises BadConfig or cfg.Error."""
    from nova_sched import service
    from nova_sched.rpc import event_notifications

    check_options(conf)
    event_notifications.of_options(conf)
    with bus(conf) as transport:
        service.is_direct(conf, transport)
        try_bus(transport)
    if conf.claims.store == 'sql':
        with contextlib.suppress(errors.StoreUnavailable):  # the workers wait, and log it
            service.database(conf).dispose()


def check_options(conf):
    """Check the options of a scheduler, without a connection. Return its filters and weighers.
    Raises BadConfig or cfg.Error."""
    from nova_sched import service

    options.register_plug_in_opts(conf)
    read_all(conf)
    rules = service.rules(conf)
    service.topology(conf)
    if reads_nova(conf):
        from nova_sched import nova_service

        nova_service.check(conf)
    return rules


@contextlib.contextmanager
def bus(conf):
    """The transport of the bus, for a block. Raises BadConfig."""
    from nova_sched import rpc  # late: most commands do not use the bus

    transport = rpc.transport(conf)
    try:
        yield transport
    finally:
        transport.cleanup()


def try_bus(transport):
    """Connect once to a transport. Raises BadConfig if the bus refuses the user, the password or
    the virtual host. A bus that does not answer is waited for later."""
    from nova_sched import rpc

    accepted('[DEFAULT] transport_url', lambda: rpc.try_once(transport))


def accepted(where, connect):
    """Run ``connect``, to the broker that this option names. Raises BadConfig if it refuses."""
    try:
        connect()
    except errors.BrokerRefused as error:
        raise errors.BadConfig(where, str(error)) from None
    except errors.BrokerUnavailable as error:
        LOG.warning('%s: %s; the daemon starts, and waits for it', where, error)


def read_all(conf):
    """Read every option of this package and of plug-ins. Raises cfg.Error.

    oslo.config does not validate a value before it is read.
    """
    for group in services.OPTS:
        services.register_keystone_opts(conf, group)
    for group, opts in [*options.list_opts(), *options.plug_in_opts()]:
        values = conf if group == 'DEFAULT' else conf[group]
        for opt in opts:
            try:
                values[opt.dest]
            except ValueError as error:  # cfg.ConfigFileValueError is one
                why = str(error).rpartition(' is not valid: ')[2]
                raise errors.BadConfig(f'[{group}] {opt.name}', why) from None


class Reloadable:
    """The configuration, for a launcher that reloads it: files with errors change nothing.

    ``check`` validates the new values before they are applied; it raises a SchedError.
    """

    def __init__(self, conf, argv=None, check=None):
        self._conf = conf
        self._check = check
        self.problem = ''  # with the files, when they were last read
        self._argv = config_arguments(sys.argv[1:] if argv is None else argv)

    def __getattr__(self, name):
        return getattr(self._conf, name)

    def mutate_config_files(self):
        """Apply the options that may change, unless a value is not valid. Return the changed
        options."""
        fresh = cfg.ConfigOpts()
        options.register_opts(fresh)
        try:
            options.register_plug_in_opts(fresh)
            fresh(self._argv, project='nova_sched')
            read_all(fresh)
            if self._check is not None:
                self._check(fresh)
        except (errors.SchedError, cfg.Error) as error:
            self.problem = ' '.join(str(error).split())
            LOG.error('The configuration is not reloaded: %s', error)
            return {}
        self.problem = ''
        changed = self._conf.mutate_config_files()
        self.forget_values()
        return changed

    def forget_values(self):
        """Let each option be read again from the files that were parsed.

        oslo.config keeps the values that were read, and forgets them before it parses the files: a
        thread that reads an option meanwhile makes it keep the old value.
        """
        # Registered again: this changes nothing, and forgets all.
        self._conf.register_opts(options.base.DEFAULT_OPTS)


def guarded(main, status=1):
    """Run a program. A bad configuration ends it with one message, without a traceback, and with
    this exit status; daemons have one of their own, after which systemd need not try again."""
    try:
        return main() or 0
    except (errors.SchedError, cfg.Error) as error:
        text = ' '.join(str(error).split())  # that of a library may have several lines
        print(f'{sys.argv[0].rpartition("/")[2]}: {words.visible(text)}', file=sys.stderr)
        return status
