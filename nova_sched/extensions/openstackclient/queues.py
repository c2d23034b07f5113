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

"""`openstack scheduler ...`: the flavors that are queues, and the queues."""

from osc_lib.cli import parseractions
from osc_lib.command import command

from nova_sched.extensions.openstackclient.plugin import DICT, FLAVORS, QUEUES, Action, at, option

FLAVOR = (
    'name',
    'flavorid',
    'vcpus',
    'memory_mb',
    'root_gb',
    'ephemeral_gb',
    'swap',
    'extra_specs',
)
QUEUE = ('name', 'queue', 'ready', 'consumers')


def _add_property(parser):
    parser.add_argument(
        '--property',
        metavar='<key=value>',
        action=parseractions.KeyValueAction,
        default={},  # a new one for each parser: the action changes it
        help='an extra spec; may be repeated',
    )


class ListFlavors(Action, command.Lister):
    """List the flavors that are queues"""

    def take_action(self, parsed_args):
        flavors = self.api.ask('GET', FLAVORS).json()['flavors']
        return FLAVOR, [_values(flavor) for flavor in flavors]


class ShowFlavor(Action, command.ShowOne):
    """Show a flavor that is a queue"""

    arguments = (option('flavor', metavar='<name>', help='name of the flavor'),)

    def take_action(self, parsed_args):
        return FLAVOR, _values(self.api.ask('GET', at(FLAVORS, parsed_args.flavor)).json())


class CreateFlavor(Action, command.ShowOne):
    """Add a flavor and its queues

    An equal flavor that exists already stays unchanged.
    """

    arguments = (
        option('name', metavar='<name>', help='name of the flavor'),
        option('--id', metavar='<id>', help='its ID, if that is not its name'),
        *(
            option(
                f'--{name}',
                metavar='<number>',
                type=int,
                default=default,
                help=f'{help_} ({default})',
            )
            for name, default, help_ in (
                ('vcpus', 1, 'vCPUs'),
                ('ram', 256, 'memory, MiB'),
                ('disk', 0, 'root disk, GiB'),
                ('ephemeral', 0, 'ephemeral disk, GiB'),
                ('swap', 0, 'swap, MiB'),
            )
        ),
        _add_property,
    )

    def take_action(self, parsed_args):
        body = {
            'name': parsed_args.name,
            'flavorid': parsed_args.id,
            'vcpus': parsed_args.vcpus,
            'memory_mb': parsed_args.ram,
            'root_gb': parsed_args.disk,
            'ephemeral_gb': parsed_args.ephemeral,
            'swap': parsed_args.swap,
            'extra_specs': parsed_args.property,
        }
        return FLAVOR, _values(self.api.ask('POST', FLAVORS, json=body).json())


class DeleteFlavor(Action, command.Command):
    """Remove flavors

    Their queues end, and the jobs that wait there go to the scheduler. Servers stay.
    """

    arguments = (option('flavors', metavar='<name>', nargs='+', help='names of the flavors'),)

    def take_action(self, parsed_args):
        for name in parsed_args.flavors:
            self.api.ask('DELETE', at(FLAVORS, name))


class ListQueues(Action, command.Lister):
    """List queues, with their numbers of waiting jobs and of consumers"""

    arguments = (option('--waiting', action='store_true', help='only queues where jobs wait'),)

    def take_action(self, parsed_args):
        queues = self.api.pages(QUEUES, 'queues')
        kept = [queue for queue in queues if queue['ready'] or not parsed_args.waiting]
        return QUEUE, [[queue[name] for name in QUEUE] for queue in kept]


def _values(flavor):
    return [DICT(flavor[name]) if name == 'extra_specs' else flavor[name] for name in FLAVOR]
