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

from nova_sched.osc.plugin import DICT, FLAVORS, QUEUES, api, at

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


class ListFlavors(command.Lister):
    """List the flavors that are queues"""

    def take_action(self, parsed_args):
        found = api(self).ask('GET', FLAVORS).json()['flavors']
        return FLAVOR, [_values(one) for one in found]


class ShowFlavor(command.ShowOne):
    """Show a flavor that is a queue"""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('flavor', metavar='<name>', help='name of the flavor')
        return parser

    def take_action(self, parsed_args):
        return FLAVOR, _values(api(self).ask('GET', at(FLAVORS, parsed_args.flavor)).json())


class CreateFlavor(command.ShowOne):
    """Add a flavor and its queues

    An equal flavor that exists already stays unchanged.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>', help='name of the flavor')
        parser.add_argument('--id', metavar='<id>', help='its ID, if that is not its name')
        for name, default, help_ in (
            ('vcpus', 1, 'vCPUs'),
            ('ram', 256, 'memory, MiB'),
            ('disk', 0, 'root disk, GiB'),
            ('ephemeral', 0, 'ephemeral disk, GiB'),
            ('swap', 0, 'swap, MiB'),
        ):
            parser.add_argument(
                f'--{name}',
                metavar='<number>',
                type=int,
                default=default,
                help=f'{help_} ({default})',
            )
        parser.add_argument(
            '--property',
            metavar='<key=value>',
            action=parseractions.KeyValueAction,
            default={},
            help='an extra spec; may be repeated',
        )
        return parser

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
        return FLAVOR, _values(api(self).ask('POST', FLAVORS, json=body).json())


class DeleteFlavor(command.Command):
    """Remove flavors

    Their queues end, and the jobs that wait there go to the scheduler. Servers stay.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('flavors', metavar='<name>', nargs='+', help='names of the flavors')
        return parser

    def take_action(self, parsed_args):
        for name in parsed_args.flavors:
            api(self).ask('DELETE', at(FLAVORS, name))


class ListQueues(command.Lister):
    """List queues, with their numbers of waiting jobs and of consumers"""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--waiting', action='store_true', help='only queues where jobs wait')
        return parser

    def take_action(self, parsed_args):
        found = api(self).pages(QUEUES, 'queues')
        kept = [one for one in found if one['ready'] or not parsed_args.waiting]
        return QUEUE, [[one[name] for name in QUEUE] for one in kept]


def _values(flavor):
    return [DICT(flavor[name]) if name == 'extra_specs' else flavor[name] for name in FLAVOR]
