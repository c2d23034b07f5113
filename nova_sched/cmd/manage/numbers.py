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
"""Numbers on the command line."""

from nova_sched import words

UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}
MAX_S = 10**9  # three decades; a thread may wait as long


def from_1(text):
    """A whole number from 1."""
    return words.whole(text, 1, words.MAX_INTEGER)


def seconds(text):
    """A length of time above 0, in seconds."""
    found_s = words.finite(text, 0, MAX_S)
    if not found_s:
        raise ValueError(text)
    return found_s


def span(text):
    """Seconds of a length of time: 90, 15m, 2h, 7d."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, 's')
    return words.finite(words.finite(number) * UNITS[unit], 0, MAX_S)


# argparse adds these texts to its errors
from_1.__name__ = 'number from 1'
seconds.__name__ = 'number of seconds above 0'
span.__name__ = 'length of time (90, 15m, 2h, 7d)'
