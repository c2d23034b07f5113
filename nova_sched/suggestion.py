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
"""Suggestions for a word that is not known: what may have been meant, for the texts of errors."""

import difflib
import itertools

CLOSE = 0.7  # of 1 for equal words
# A comparison takes up to the cube of the length, and users choose the words: a hint is not worth
# more than some milliseconds.
MAX_LENGTH = 40  # characters of a word
MAX_WORDS = 100  # of nearly the same length


def question(word, words, close_enough=CLOSE):
    """Returns `did you mean ...?` if one of the words is close enough, else an empty text."""
    close = closest(word, words, close_enough)
    return f'did you mean {close}?' if close else ''


def closest(word, words, close_enough=CLOSE):
    """Returns the closest of the words; None if none is close enough.

    Looks at short words only, and not at many.
    """
    if len(word) > MAX_LENGTH:
        return None
    # By the same formula, words of other lengths cannot be close enough.
    alike = (
        other
        for other in words
        if len(other) <= MAX_LENGTH
        and 2 * min(len(word), len(other)) >= close_enough * (len(word) + len(other))
    )
    first = itertools.islice(alike, MAX_WORDS)
    matches = difflib.get_close_matches(word, first, n=1, cutoff=close_enough)
    return matches[0] if matches else None


def suggestion(word, words):
    """Returns the question as the end of an error: `; did you mean ...?`, or an empty text."""
    sentence = question(word, words)
    return sentence and f'; {sentence}'
