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

"""`group validate`: reads a template as a scheduler would, without one."""

import contextlib

from nova_sched import errors
from nova_sched.cmd.manage import group_pages, output
from nova_sched.groups import template, why
from nova_sched.groups.exact import worker
from nova_sched.groups.members import member_spec
from nova_sched.groups.template.servers import flavors_of_file
from nova_sched.groups.topology import DomainTopology


def validate(args, conf, given):
    """Show the contents of a template, or its error; ``given`` is the template and what it names.
    Returns the exit status."""
    topology = DomainTopology(conf.topology.levels, conf.topology.orders)
    try:
        definition = _read(conf, topology.levels, **given)
    except (errors.TemplateError, errors.InvalidRequest) as error:
        place = {name: getattr(error, name, None) for name in errors.TemplateError.facts}
        if args.format == output.TABLE:
            output.complain(group_pages.mistake(args.file, **place))
        else:
            output.show(args, {'ok': False, 'error': place})
        return 1
    with worker.Solver() if conf.groups.solver else contextlib.nullcontext() as solver:
        collision = why.contradiction_anywhere(definition, topology.levels, solver=solver)
    found = {
        'ok': collision is None,
        'error': None,
        **definition.summary(),
        'contradiction': collision,
    }
    output.show(args, found, text=group_pages.validated)
    return 0 if found['ok'] else 1


def _read(conf, levels, flavors, **given):
    """The Definition of a template, as a scheduler of this configuration would read it.

    Raises TemplateError, InvalidRequest for a member that Nova would refuse, or BadConfig.
    """
    found = template.read(
        given['template'],
        given['parameters'],
        {**flavors_of_file(conf.groups.flavors), **(flavors or {})},
        given['images'],
        levels=levels,
        max_members=conf.groups.max_members,
    )
    for member in {one.description: one for one in reversed(found.members.values())}.values():
        member_spec.spec_of(member)
    return found
