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
"""What `config check` tries of the options of queues."""

from nova_sched import errors
from nova_sched.cmd.manage.config import ERROR, ConfigFinding
from nova_sched.cmd.manage.config import broker as reached

# Parts that are not configured are not imported: that takes as long as all the rest.


def specials(conf):
    """An invalid special thing."""
    if conf.queues.specials:
        from nova_sched.extensions.queues.catalogue import Catalogue

        yield from invalid_option('specials', lambda: Catalogue.of(0, (), conf.queues.specials))


def broker(conf):
    """An invalid address of the broker; without one, it is that of the bus."""
    if conf.queues.transport_url:
        from nova_sched.extensions.queues import service

        yield from invalid_option(
            'transport_url', lambda: service.close_broker(service.broker(conf))
        )


def invalid_option(name, check):
    """The ConfigFinding of an option of [queues] for which ``check()`` raises BadConfig."""
    try:
        check()
    except errors.BadConfig as error:
        where = error.where if error.where.startswith('[') else f'[queues] {name}'
        yield ConfigFinding(ERROR, where, error.why, 'correct it, or leave it out')


def connection(conf):
    """RabbitMQ of [queues] transport_url."""
    if not conf.queues.transport_url:
        return None
    from nova_sched.extensions.queues import service

    return reached('[queues] transport_url', lambda: service.try_once(conf))
