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
"""The options that describe a request."""


def add_arguments(parser):
    """The options that describe a request."""
    asked = parser.add_argument_group('the request')
    asked.add_argument(
        '--spec',
        metavar='FILE',
        help="a RequestSpec as JSON, such as the column 'spec' of Nova's table "
        'request_specs; - reads it from standard input. The options below are then '
        'left out',
    )
    for name, default, help_ in (
        ('vcpus', 1, 'vCPUs'),
        ('ram', 512, 'memory, MiB'),
        ('disk', 0, 'root disk, GiB'),
        ('ephemeral', 0, 'ephemeral disk, GiB'),
        ('swap', 0, 'swap, MiB'),
    ):
        asked.add_argument(
            f'--{name}',
            metavar='N',
            type=int,
            help=f'{help_} (as the flavor, else {default})',
        )
    for name, help_ in (
        (
            'extra-spec',
            'an extra spec of the flavor, such as trait:HW_CPU_X86_AVX2=required; may be repeated',
        ),
        (
            'image-property',
            'a property of the image, such as hw_architecture=aarch64; may be repeated',
        ),
        ('hint', 'a scheduler hint, such as different_host=UUID; may be repeated'),
    ):
        asked.add_argument(
            f'--{name}', metavar='KEY=VALUE', type=pair, action='append', default=[], help=help_
        )
    asked.add_argument(
        '--flavor',
        metavar='NAME',
        help='a flavor of the database or of [groups] flavors; any name with the options above',
    )
    asked.add_argument('--image', metavar='UUID', help='the image')
    asked.add_argument('--zone', metavar='NAME', help='the availability zone')
    asked.add_argument('--project', metavar='ID', help='the project')
    asked.add_argument(
        '--force-host', metavar='NAME', action='append', help='only this host; may be repeated'
    )
    asked.add_argument(
        '--ignore-host', metavar='NAME', action='append', help='not this host; may be repeated'
    )
    asked.add_argument(
        '--count', metavar='N', type=int, default=1, help='servers in this one request (1)'
    )


def pair(text):
    """``key=value`` as a pair."""
    key, equals, value = text.partition('=')
    if not key or not equals:
        raise ValueError(text)
    return key, value


pair.__name__ = 'KEY=VALUE'  # argparse adds this text to its error


def spec(args, conf):
    """The RequestSpec from the arguments. Raises InvalidRequest or FlavorNotFound."""
    from nova_sched.cmd.manage import spec_objects  # late: versioned objects import the bus

    return spec_objects.spec(args, conf)
