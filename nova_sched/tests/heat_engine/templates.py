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
"""Templates of stacks, from what a test is about."""

import itertools

VERSION = '2018-08-31'
GROUP = 'group'
NUMBERS = itertools.count()


def fresh_name():
    """A name that no other stack has."""
    return f'stack{next(NUMBERS)}'


def hints(*path):
    """Where a server has its scheduler hints from."""
    return {'get_attr': [GROUP, 'hints', *path]}


def server(*path, flavor='small', **more):
    """A server; with a path, one that takes the hints there."""
    properties = {
        'flavor': flavor,
        'image': 'debian',
        'user_data_format': 'RAW',
        'networks': [{'allocate_network': 'none'}],
        **({'name': path[-1], 'scheduler_hints': hints(*path)} if path else {}),
        **more,
    }
    return of(
        'OS::Nova::Server',
        **{key: value for key, value in properties.items() if value is not None},
    )


def of(resource_type, **properties):
    return {'type': resource_type, 'properties': properties}


def servers(name, count, **more):
    """A ResourceGroup of servers."""
    inner = server(name, **{'name': f'{name}-%index%', **more})
    return of('OS::Heat::ResourceGroup', count=count, resource_def=inner)


def members(*names, policies=(), **more):
    """A Group of resources of the stack."""
    listed = [{'get_resource': name} if isinstance(name, str) else name for name in names]
    return of('OS::NovaSched::Group', members=listed, policies=list(policies), **more)


def policy(kind, level='host', **more):
    return {'type': kind, 'level': level, **more}


def template(parameters=None, outputs=None, **resources):
    """A template with a TopGroup."""
    made = {
        'heat_template_version': VERSION,
        'resources': {GROUP: {'type': 'OS::NovaSched::TopGroup'}, **resources},
    }
    if parameters:
        made['parameters'] = parameters
    if outputs:
        made['outputs'] = {name: {'value': value} for name, value in outputs.items()}
    return made
