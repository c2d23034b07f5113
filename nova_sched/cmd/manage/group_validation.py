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
from nova_sched.engine.groups import reading
from nova_sched.groups import why
from nova_sched.groups.exact import worker
from nova_sched.groups.topology import DomainTopology


def validate(args, conf, given):
    """Show the contents of a template, or its error; ``given`` is the template and what it names.
    Returns the exit status."""
    topology = DomainTopology(conf.topology.levels, conf.topology.orders)
    try:
        rules = reading.ReadingRules.of(conf.groups, topology.levels)
        definition = reading.read(reading.Given(**given), rules, rules.seconds).definition
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
