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

"""Elements of pictures: SVG documents of one width."""

import xml.etree.ElementTree as ET

WIDTH = 860


def element(tag, attributes, *children):
    """An element with children, of which a text may be the only one."""
    made = ET.Element(tag, {name: str(value) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, str):
            made.text = child
        else:
            made.append(child)
    return made


def text(x, y, words, **attributes):
    style = {'font-family': 'sans-serif', 'font-size': 13}
    return element('text', {'x': round(x, 1), 'y': y, **style, **attributes}, words)


def svg(height, *parts):
    size = {'width': WIDTH, 'height': height}
    return element('svg', {'xmlns': 'http://www.w3.org/2000/svg', **size}, *parts)
