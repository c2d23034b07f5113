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
"""The operator's file of the flavors that templates may name."""

import functools
import os

import yaml

from nova_sched import errors

OPTION = '[groups] flavors'
LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


def read(path):
    """Returns the flavors by name, as a template would define them.

    The file is read again when it changes. Without a path there are no flavors. Raises BadConfig.
    """
    if not path:
        return {}
    try:
        about = os.stat(path)
        return _read(path, about.st_mtime_ns, about.st_size, about.st_ino)
    except (OSError, ValueError) as error:
        raise errors.BadConfig(OPTION, f'{path} cannot be read: {error}') from None


@functools.lru_cache(maxsize=4)
def _read(path, *_version):
    try:
        with open(path, encoding='utf-8') as file:
            found = yaml.load(file, Loader=LOADER)
    except yaml.YAMLError as error:
        raise errors.BadConfig(
            OPTION, f'{path} is no YAML: {" ".join(str(error).split())}'
        ) from None
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise errors.BadConfig(OPTION, f'{path} is no mapping from names to flavors')
    return {str(name): flavor for name, flavor in found.items()}
