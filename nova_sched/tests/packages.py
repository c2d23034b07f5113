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
"""Packages that are installed for one test: a module, and the entry points that pip would
write."""

from pathlib import Path


def install(folder: Path, name: str, source: str, **groups: dict[str, str]) -> None:
    """Put a package into a folder, as pip would.

    ``groups`` are entry points, name to target, by group with `__` for each dot. The module has
    the package's name; each test takes another, because Python keeps what it has imported.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f'{name}.py').write_text(source)
    lines = []
    for group, points in groups.items():
        lines.append(f'[{group.replace("__", ".")}]')
        lines += [f'{point} = {target}' for point, target in points.items()]
    made = folder / f'{name}-1.0.dist-info'
    made.mkdir()
    (made / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n')
    (made / 'entry_points.txt').write_text('\n'.join(lines) + '\n')
