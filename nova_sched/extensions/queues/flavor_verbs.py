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
"""`flavor` and `queue`: each flavor is a queue of jobs. Flavors are in the database; a manager of
queues knows how many jobs wait."""

from nova_sched import errors
from nova_sched.cmd.manage import arguments, asking, output, tables
from nova_sched.cmd.manage.arguments import TIMEOUT, option

TELL_S = 3  # seconds to wait for the bus: a process that gets no message polls by itself
PAGE = 500  # queues in one answer: a manager asks the broker for each


# Flavors.


def create(args, conf):
    """Add a flavor and its queues

    An equal flavor that exists already stays unchanged. The managers of queues get a message over
    the bus, and poll the database each minute. No daemon has to be restarted.

    Keys: those of 'flavor list'.
    """
    from nova_sched.extensions.queues.catalogue import (
        checked_flavor,  # late: it checks as a scheduler does
    )

    wanted = {'name': args.name, 'flavorid': args.id, 'vcpus': args.vcpus, 'memory_mb': args.ram}
    wanted |= {'root_gb': args.disk, 'ephemeral_gb': args.ephemeral, 'swap': args.swap}
    flavors = _flavors(conf)
    flavor = checked_flavor({**wanted, 'extra_specs': dict(args.property)}, flavors.now_s())
    is_new = flavors.create(flavor)
    if is_new:
        _tell(args, conf, flavors)
    shown = row(_of_name(flavors, args.name))
    word = 'is there now' if is_new else 'was there already'
    output.show(args, shown, text=lambda _: f'Flavor {args.name} {word}.')
    return 0


def delete(args, conf):
    """Remove a flavor

    Its queues end, and the jobs that wait there go to the scheduler: none is lost. Servers of this
    flavor stay.

    Keys: deleted (the name).
    """
    flavors = _flavors(conf)
    flavors.delete(args.name)
    _tell(args, conf, flavors)
    output.show(args, {'deleted': args.name}, text=lambda _: f'Flavor {args.name} is deleted.')
    return 0


def list_flavors(args, conf):
    """List flavors, by name

    Keys: name, flavorid, vcpus, memory_mb, root_gb, ephemeral_gb, swap (MiB),
    extra_specs, created_at.
    """
    flavors = _flavors(conf)
    _, listed = flavors.list()
    output.show(args, [row(flavor) for flavor in listed], flavor_columns(flavors.now_s()))
    return 0


def show(args, conf):
    """Show a flavor and its queues: one for itself, and one with each of [queues] specials

    A flavor that asks for NUMA cells has no queues. A flavor has no queue with a special thing
    that it asks for or rules out by itself. The scheduler places such servers.

    Keys: those of 'flavor list', and queues (their names).
    """
    from nova_sched.extensions.queues.catalogue import Catalogue  # late, as above

    flavors = _flavors(conf)
    flavor = _of_name(flavors, args.name)
    queues = [str(queue) for queue in Catalogue.of(0, [flavor], conf.queues.specials).queues]
    shown = {**row(flavor), 'queues': queues}
    output.show(args, shown, text=lambda row: page(row, flavors.now_s()))
    return 0


def _of_name(flavors, name):
    for flavor in flavors.list()[1]:
        if flavor['name'] == name:
            return flavor
    raise errors.FlavorNotFound(name)


def _tell(args, conf, flavors):
    """Send a message that the list has changed, if the bus can be reached."""
    from nova_sched.extensions.queues.bus import announce  # late, as the bus

    version, _ = flavors.list()
    try:
        asking.ask(args, conf, lambda bus, timeout_s: bus, lambda bus: announce(bus, version))
    except Exception as error:  # noqa: BLE001, each driver of the bus has other errors
        why = str(error) or type(error).__name__
        output.complain(
            f'nova-sched-manage: the change is stored, and takes effect within a minute: {why}'
        )


def _flavors(conf):
    from nova_sched.cmd.manage import store  # late: `queue list` does not use the database
    from nova_sched.db.flavors import SqlFlavors

    return SqlFlavors(store.ready(conf))


def row(flavor):
    """A flavor as its keys and values."""
    shown = {name: value for name, value in flavor.items() if name != 'created_s'}
    return {**shown, 'created_at': tables.moment(flavor['created_s'])}


def flavor_columns(now_s):
    return {
        'Name': lambda row: row['name'],
        'ID': lambda row: row['flavorid'],
        'vCPU': lambda row: row['vcpus'],
        'RAM (MiB)': lambda row: row['memory_mb'],
        'Root (GiB)': lambda row: row['root_gb'],
        'Ephemeral (GiB)': lambda row: row['ephemeral_gb'],
        'Swap (MiB)': lambda row: row['swap'],
        'Properties': lambda row: ', '.join(_properties(row)),
        'Made': lambda row: tables.age(row['created_at'], now_s),
    }


def _properties(row):
    return [f'{key}={value}' for key, value in sorted(row['extra_specs'].items())]


def page(row, now_s):
    lines = [
        f'{name:17}{cell(row)}'
        for name, cell in flavor_columns(now_s).items()
        if name != 'Properties'
    ]
    lines += [tables.fill(text, 'Property         ') for text in _properties(row)]
    lines += [f'Queue            {name}' for name in row['queues']] or ['Queue            none']
    return '\n'.join(lines)


# Queues.


def list_queues(args, conf):
    """List queues: those of fallback and of results, then those of flavors

    Calls a running manager of queues, over the bus; queues of hosts are not included. In a full
    cloud a queue has jobs and no workers.

    Keys: name (the flavor, and behind a + the special thing), queue (its name
    on the broker), ready (jobs that wait), consumers (workers that take from it; of the first two,
    managers). These are null if the broker does not have the queue.
    """
    queues = asking.ask(args, conf, 'QueuesClient', all_queues)
    if args.waiting:
        queues = [row for row in queues if row['ready']]
    output.show(args, queues, QUEUE_COLUMNS)
    return 0


def all_queues(manager):
    """All queues, page by page."""
    queues = more = manager.facts(None, PAGE)
    while len(more) == PAGE:
        more = manager.facts(more[-1]['queue'], PAGE)
        queues = queues + more
    return queues


QUEUE_COLUMNS = {
    'Queue': lambda row: row['name'],
    'On the broker': lambda row: row['queue'],
    'Waiting': lambda row: _count(row['ready']),
    'Workers': lambda row: _count(row['consumers']),
}


def _count(number):
    return '-' if number is None else number


NAME = option('name', metavar='NAME', help='name of the flavor')
SIZES = (
    ('vcpus', 1, 'vCPUs'),
    ('ram', 256, 'memory, MiB'),
    ('disk', 0, 'root disk, GiB'),
    ('ephemeral', 0, 'ephemeral disk, GiB'),
    ('swap', 0, 'swap, MiB'),
)


def _tells(parser):
    """The verb sends a message when it is done."""
    parser.set_defaults(timeout=TELL_S)


VERBS = (
    (
        'create',
        create,
        NAME,
        _tells,
        option('--id', metavar='ID', help='its ID, if that is not its name'),
        *(
            option(
                f'--{name}', metavar='N', type=int, default=default, help=f'{help_} ({default})'
            )
            for name, default, help_ in SIZES
        ),
        option(
            '--property',
            metavar='KEY=VALUE',
            type=arguments.pair,
            action='append',
            default=[],
            help='an extra spec, such as trait:HW_CPU_X86_AVX2=required; may be repeated',
        ),
    ),
    ('list', list_flavors),
    ('show', show, NAME),
    ('delete', delete, NAME, _tells),
)
QUEUE_VERBS = (
    (
        'list',
        list_queues,
        option('--waiting', action='store_true', help='only queues where jobs wait'),
        TIMEOUT,
    ),
)
