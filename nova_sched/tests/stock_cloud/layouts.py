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
"""How the services of a cloud share databases and brokers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """``database`` is the fixture that runs the server, ``mariadb`` or ``postgresql``.

    With ``is_split`` the top level and the cell have conductors and brokers of their own, and no
    service of the cell reaches the scheduler or the API database. With ``has_templates`` the cell
    mappings hold URL templates. Unless it ``has_casts``, nova-compute tells no scheduler of its
    instances, and does not check the policies of server groups again.
    """

    database: str
    is_split: bool = False
    has_templates: bool = False
    has_casts: bool = True


LAYOUTS = {
    'mariadb-single': Layout('mariadb'),
    'mariadb-split': Layout('mariadb', is_split=True, has_templates=True, has_casts=False),
    'postgresql-single': Layout('postgresql', has_templates=True, has_casts=False),
}
