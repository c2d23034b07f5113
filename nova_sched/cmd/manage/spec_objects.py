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

"""A RequestSpec from the options of a command line, or from a file."""

import contextlib
import json
import sys

from nova_sched import errors, objects
from nova_sched.cmd.manage import store
from nova_sched.db.flavors import SqlFlavors
from nova_sched.groups.template.servers import flavors_of_file
from nova_sched.suggestion import suggestion


def spec(args, conf):
    """The RequestSpec from the arguments. Raises InvalidRequest or FlavorNotFound."""
    return _read(args.spec) if args.spec else _made(args, _flavor(args, conf))


def _read(path):
    try:
        if path == '-':
            found = json.load(sys.stdin)
        else:
            with open(path, encoding='utf-8') as file:
                found = json.load(file)
    except (OSError, ValueError) as error:
        raise errors.InvalidRequest(f'--spec {path}', str(error)) from None
    made = objects.from_primitive(found)
    if not isinstance(made, objects.RequestSpec):
        raise errors.InvalidRequest(f'--spec {path}', 'it holds no RequestSpec')
    return made


SIZES = {'vcpus': 1, 'ram': 512, 'disk': 0, 'ephemeral': 0, 'swap': 0}
FIELDS = {'ram': 'memory_mb', 'disk': 'root_gb', 'ephemeral': 'ephemeral_gb'}


def _flavor(args, conf):
    """The flavor with the given name, sizes and extra specs."""
    given = {name: getattr(args, name) for name in SIZES if getattr(args, name) is not None}
    known = {} if args.flavor is None else _flavors(conf)
    if args.flavor is not None and args.flavor not in known and not given:
        raise errors.FlavorNotFound(args.flavor + suggestion(args.flavor, known))
    base = known.get(args.flavor, {})
    sizes = {
        FIELDS.get(name, name): given.get(name, base.get(FIELDS.get(name, name), default))
        for name, default in SIZES.items()
    }
    name = args.flavor or 'asked'
    return objects.Flavor(
        id=1,
        flavorid=base.get('flavorid', name),
        name=name,
        extra_specs={**base.get('extra_specs', {}), **dict(args.extra_spec)},
        **sizes,
    )


def _flavors(conf):
    """The flavors by name: of [groups] flavors, and of the database if there is one."""
    found = dict(flavors_of_file(conf.groups.flavors))
    with contextlib.suppress(errors.BadConfig):  # without a database the file alone counts
        found |= {one['name']: one for one in SqlFlavors(store.ready(conf)).list()[1]}
    return found


def _made(args, flavor):
    return objects.simple_request(
        flavor,
        count=args.count,
        project_id=args.project,
        zone=args.zone,
        image=args.image,
        image_properties=args.image_property,
        hints=args.hint,
        ignore_hosts=args.ignore_host,
        force_hosts=args.force_host,
    )
