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
"""What verbs take in common: types of numbers, the options of a call to a scheduler, and the
options of a request for servers, with the RequestSpec that they describe."""

import contextlib
import json
import sys

from nova_sched import errors, words
from nova_sched.words import suggestion

UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}
MAX_S = 10**9  # three decades; a thread may wait as long
TIMEOUT_S = 60
# Options of the sizes of a server: the field of a flavor, its default, and the help.
SIZES = {
    'vcpus': ('vcpus', 1, 'vCPUs'),
    'ram': ('memory_mb', 512, 'memory, MiB'),
    'disk': ('root_gb', 0, 'root disk, GiB'),
    'ephemeral': ('ephemeral_gb', 0, 'ephemeral disk, GiB'),
    'swap': ('swap', 0, 'swap, MiB'),
}


def from_1(text):
    """A whole number from 1."""
    return words.whole(text, 1, words.MAX_INTEGER)


def seconds(text):
    """A length of time above 0, in seconds."""
    length_s = words.finite(text, 0, MAX_S)
    if not length_s:
        raise ValueError(text)
    return length_s


def span(text):
    """Seconds of a length of time: 90, 15m, 2h, 7d."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, 's')
    return words.finite(words.finite(number) * UNITS[unit], 0, MAX_S)


def pair(text):
    """``key=value`` as a pair."""
    key, equals, value = text.partition('=')
    if not key or not equals:
        raise ValueError(text)
    return key, value


# argparse adds these texts to its errors
from_1.__name__ = 'number from 1'
seconds.__name__ = 'number of seconds above 0'
span.__name__ = 'length of time (90, 15m, 2h, 7d)'
pair.__name__ = 'KEY=VALUE'


def option(*names, **words):
    """Return a function that adds this argument to a parser: a verb lists its arguments so."""
    return lambda parser: parser.add_argument(*names, **words)


def limit(most):
    """Return the option for how many to list, ``most`` if it is not given."""
    return option(
        '--limit', metavar='N', type=from_1, default=most, help=f'maximum number ({most})'
    )


# Calls to a scheduler.

TIMEOUT = option(
    '--timeout',
    metavar='SECONDS',
    type=from_1,
    default=TIMEOUT_S,
    help=f'how long to wait for an answer ({TIMEOUT_S})',
)
SHADOW = option('--shadow', action='store_true', help='ask nova-sched-shadow, and not a scheduler')


# Requests for servers.


def add_request(parser):
    """The options that describe a request."""
    group = parser.add_argument_group('the request')
    group.add_argument(
        '--spec',
        metavar='FILE',
        help="a RequestSpec as JSON, such as the column 'spec' of Nova's table "
        'request_specs; - reads it from standard input. The options below are then '
        'left out',
    )
    for name, (_, default, help_) in SIZES.items():
        group.add_argument(
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
        group.add_argument(
            f'--{name}', metavar='KEY=VALUE', type=pair, action='append', default=[], help=help_
        )
    group.add_argument(
        '--flavor',
        metavar='NAME',
        help='a flavor of the database or of [groups] flavors; any name with the options above',
    )
    group.add_argument('--image', metavar='UUID', help='the image')
    group.add_argument('--zone', metavar='NAME', help='the availability zone')
    group.add_argument('--project', metavar='ID', help='the project')
    group.add_argument(
        '--force-host', metavar='NAME', action='append', help='only this host; may be repeated'
    )
    group.add_argument(
        '--ignore-host', metavar='NAME', action='append', help='not this host; may be repeated'
    )
    group.add_argument(
        '--count', metavar='N', type=int, default=1, help='servers in this one request (1)'
    )


def request_spec(args, conf):
    """Return the RequestSpec from the options of ``add_request``. Raises InvalidRequest or
    FlavorNotFound."""
    from nova_sched import objects  # late: versioned objects import the bus

    if args.spec:
        return read_spec(args.spec)
    return objects.simple_request(
        objects.Flavor(**_flavor(args, conf)),
        count=args.count,
        project_id=args.project,
        zone=args.zone,
        image=args.image,
        image_properties=args.image_property,
        hints=args.hint,
        ignore_hosts=args.ignore_host,
        force_hosts=args.force_host,
    )


def read_spec(path):
    """Return the RequestSpec in a file; - is standard input. Raises InvalidRequest."""
    from nova_sched import objects  # late, as above

    try:
        if path == '-':
            primitive = json.load(sys.stdin)
        else:
            with open(path, encoding='utf-8') as file:
                primitive = json.load(file)
    except (OSError, ValueError) as error:
        raise errors.InvalidRequest(f'--spec {path}', str(error)) from None
    spec = objects.from_primitive(primitive)
    if not isinstance(spec, objects.RequestSpec):
        raise errors.InvalidRequest(f'--spec {path}', 'it holds no RequestSpec')
    return spec


def _flavor(args, conf):
    """The fields of a flavor with the given name, sizes and extra specs."""
    given = {
        field: getattr(args, name)
        for name, (field, *_) in SIZES.items()
        if getattr(args, name) is not None
    }
    known = {} if args.flavor is None else _flavors(conf)
    if args.flavor is not None and args.flavor not in known and not given:
        raise errors.FlavorNotFound(args.flavor + suggestion(args.flavor, known))
    base, name = known.get(args.flavor, {}), args.flavor or 'asked'
    return {
        'id': 1,
        'flavorid': base.get('flavorid', name),
        'name': name,
        'extra_specs': {**base.get('extra_specs', {}), **dict(args.extra_spec)},
        **{
            field: given.get(field, base.get(field, default))
            for field, default, _ in SIZES.values()
        },
    }


def _flavors(conf):
    """The flavors by name: of [groups] flavors, and of the database if there is one."""
    from nova_sched.cmd.manage import store  # late: most verbs do not need the database
    from nova_sched.db.flavors import SqlFlavors
    from nova_sched.groups.template.servers import flavors_of_file

    flavors = dict(flavors_of_file(conf.groups.flavors))
    with contextlib.suppress(errors.BadConfig):  # without a database the file alone counts
        flavors |= {flavor['name']: flavor for flavor in SqlFlavors(store.ready(conf)).list()[1]}
    return flavors
