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
"""Chance with a seed, and the words that hosts, aggregates, flavors and options are made of.

The vocabularies are small, so that a request and a host meet now and then; they hold what
operators and users get wrong: blanks of every kind, empty parts, numbers that are none.
"""

import random
import uuid

NUMBERS = (
    '0',
    '1',
    '2',
    '3',
    '4',
    '7',
    '8',
    '-1',
    '+2',
    '1.5',
    '2.0',
    '1e3',
    '1_0',
    ' 3 ',
    '\u0663',
    '007',
)
NO_NUMBERS = ('', ' ', 'many', '0x10', '1,5', '1 2', '--1', 'e3', '8.5.', 'None')
WORDS = (
    'a',
    'b',
    'ab',
    'A',
    'gold',
    'silver',
    'x86_64',
    'True',
    'False',
    'linux',
    'win dows',
    'a-b',
    '\u00e9',
)
BLANKS = (' ', '  ', '\t', '\u00a0', '\n')

COMPARED = ('=', '>=', '==', '!=', '<=')
SPELLED = ('s==', 's!=', 's<', 's<=', 's>', 's>=', '<in>', '<all-in>')
NO_OPERATORS = ('>', '<', '=>', 's=', '<IN>', '<or', 'S==', '=1')


class Dice(random.Random):
    """A random.Random that also deals words."""

    def maybe(self, share):
        """True in this share of the throws."""
        return self.random() < share

    def some(self, things, most, least=0):
        """A list of up to ``most`` of the things, none of them twice."""
        return self.sample(list(things), min(len(things), self.randint(least, most)))

    def bag(self, things, most, least=0):
        """The same, where one thing may come again."""
        return [self.choice(things) for _ in range(self.randint(least, most))]

    def uuid(self):
        return str(uuid.UUID(int=self.getrandbits(128), version=4))

    def padded(self, text):
        """The text with blanks where they do not belong, now and then."""
        if self.maybe(0.7):
            return text
        return self.choice(('', *BLANKS)) + text + self.choice(('', *BLANKS))

    def word(self):
        return self.choice(WORDS)

    def number(self):
        """A number as text; one in eight is none."""
        return self.choice(NO_NUMBERS if self.maybe(0.125) else NUMBERS)

    def value(self):
        """What a stat, an aggregate's metadata or a capability may hold."""
        return self.number() if self.maybe(0.5) else self.word()

    def commas(self, things, most=3):
        """A comma list with blanks and empty parts in it."""
        parts = [self.padded(thing) for thing in self.bag(things, most)]
        if self.maybe(0.15):
            parts.insert(self.randrange(len(parts) + 1), self.choice(('', ' ')))
        return ','.join(parts)

    def wish(self, words=WORDS):
        """What an extra spec asks for: every operator, with arguments enough, too many or none."""
        kind = self.random()
        if kind < 0.25:
            return self.padded(self.choice((*words, self.number())))
        if kind < 0.45:
            operator = self.choice(COMPARED)
            arguments = [self.number() for _ in range(self.choice((0, 1, 1, 1, 2)))]
        elif kind < 0.75:
            operator, arguments = self.choice(SPELLED), self.bag((*words, *NUMBERS), 2)
        elif kind < 0.95:
            return self._either(words)
        else:
            operator, arguments = self.choice(NO_OPERATORS), self.bag((*words, *NUMBERS), 2)
        return self.padded(self.choice(BLANKS).join([operator, *arguments]))

    def _either(self, words):
        """``<or> a <or> b``, well formed but for one time in six."""
        parts = [part for word in self.bag((*words, *NUMBERS), 3, 1) for part in ('<or>', word)]
        if self.maybe(0.15):
            parts.insert(self.randrange(1, len(parts) + 1), self.choice(('<or>', self.word())))
        if self.maybe(0.1):
            parts = ['<or>']
        return ' '.join(parts)
