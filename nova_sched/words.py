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
"""Checks of text and numbers from outside, so that every database, every column and every log line
can hold them; and suggestions for words that are not known."""

import datetime
import difflib
import itertools
import math
import re

from nova_sched import errors

NAME_LENGTH = 255
UUID = re.compile('[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')
UNSTORABLE = re.compile('[\x00\ud800-\udfff]')  # NUL and halves of characters
ESCAPED = re.compile(r'\\x00|\\ud[89a-f]')  # NUL and halves of characters, as repr shows them
SYMBOL = re.compile('[A-Z0-9_]{1,255}')
MAX_DEPTH = 100  # values inside of values
MAX_WHOLE = 2**63 - 1
MAX_INTEGER = 2**31 - 1  # of the integers of databases
MAX_AMOUNT = 2.0**63  # of a float: products and sums of several stay finite
MAX_DATE_S = 253_402_214_400.0  # seconds since the epoch: the last day that a calendar has
MAX_CPUS = 2**14  # that one text names: a range like 0-999999999 must not fill the memory
CPU_RANGE = re.compile(r'(\^?)\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?')

# Kinds of names that a caller chooses, and which names of each kind are closed to him: Nova and
# this scheduler write them into requests, where rules believe them (as in CVE-2026-46448). Keys of
# versioned objects are closed in each kind.
HINT, EXTRA_SPEC, IMAGE_PROPERTY = 'scheduler hint', 'extra spec', 'image property'
OF_NODES = 'trait[^:]*:(?:COMPUTE_STATUS_DISABLED|OWNER_NOVA)'  # what a node is to Nova
INTERNAL = {
    HINT: re.compile(r'_nova_.*|nova_object\..*', re.DOTALL),
    EXTRA_SPEC: re.compile(rf'{OF_NODES}|nova_object\..*', re.DOTALL),
    IMAGE_PROPERTY: re.compile(rf'{OF_NODES}|traits_required|nova_object\..*', re.DOTALL),
}

# Extra specs that are compared with facts of hosts or with the metadata of their aggregates: those
# of these scopes, and those without a scope. Only `group_policy` is for Placement.
OF_OPERATORS = re.compile(
    r'(?:capabilities|aggregate_instance_extra_specs)(?::.*)?|(?!group_policy\Z)[^:]*', re.DOTALL
)


def is_uuid(value):
    """Whether the value is the text of a UUID, as Nova writes it."""
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def is_name(value):
    """Whether the value is one line of text that is not empty and not too long."""
    return isinstance(value, str) and 0 < len(value) <= NAME_LENGTH and value.isprintable()


def is_text(value):
    """Whether the value is text, on any number of lines, that a database accepts."""
    return isinstance(value, str) and UNSTORABLE.search(value) is None


def is_symbol(value):
    """Whether the value is a resource class or a trait, as Placement writes them."""
    return isinstance(value, str) and SYMBOL.fullmatch(value) is not None


def check_text(value):
    """Check that a database accepts all text inside of a message. Raises InvalidRequest.

    The result of ``repr`` is searched first: that takes some microseconds for a message without
    such text.
    """
    try:
        if isinstance(value, (dict, list)) and ESCAPED.search(repr(value)):
            _check_text(value, 'message')
    except RecursionError:
        raise errors.InvalidRequest('message', 'it is nested too deeply') from None


def _check_text(value, where):
    if isinstance(value, str) and not is_text(value):
        raise errors.InvalidRequest(where[-NAME_LENGTH:], 'it holds characters that are not text')
    if isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, f'a key of {where}')
            inner = where if key == 'nova_object.data' else f'{where}.{key}'
            _check_text(item, inner)
    elif isinstance(value, list):
        for item in value:
            _check_text(item, where)


def visible(text, kept=''):
    """Return the text with its invisible characters escaped, as ``\\x1b``, for those who read it.

    These are control characters, ends of lines, and what turns the direction of writing or has no
    width. ``kept`` are characters that stay.
    """
    if text.isprintable():
        return text
    return ''.join(
        character
        if character.isprintable() or character in kept
        else character.encode('unicode_escape').decode()
        for character in text
    )


def why_internal(kind, name):
    """Return why a caller may not use this name, or None if he may. ``kind`` is one of
    ``INTERNAL``.

    Each entrance for what a tenant writes asks this: templates, with the flavors and images sent
    along; stored groups; the form of a possible request; the catalogue of flavors. A conductor may
    send such names: ``rpc.translate`` tells Nova's own from a tenant's that it passes on.
    """
    if INTERNAL[kind].fullmatch(name):
        return f'the {kind} {short(name)} is for internal use'
    return None


def why_of_operators(name):
    """Return why a tenant may not write this extra spec, or None if he may.

    In Nova, operators alone write extra specs. By these ones a tenant could read what hosts and
    aggregates are, and choose the host of a server.
    """
    if OF_OPERATORS.fullmatch(name):
        return f'the extra spec {short(name)} is for operators, and for the flavors of the cloud'
    return None


def short(value):
    """A value in short form for an error text: the sender knows the full value."""
    try:
        text = repr(value[:64] if isinstance(value, (str, bytes, list, tuple)) else value)
    except ValueError:  # Python makes no text of an integer of thousands of digits
        text = f'<{type(value).__name__} of thousands of digits>'
    return text if len(text) <= 80 else f'{text[:77]}...'


def kind(value):
    """The name of an object's class as its sender knows it, or of a plain value's type."""
    return value.obj_name() if hasattr(value, 'obj_name') else type(value).__name__


def uuid(value, where):
    """Return the UUID itself. Raises InvalidRequest."""
    if not is_uuid(value):
        raise errors.InvalidRequest(where, f'{short(value)} is not a UUID')
    return value


def number(value, where, most=MAX_INTEGER, least=1):
    """Return the whole number itself. Raises InvalidRequest."""
    if type(value) is not int or value < least:
        raise errors.InvalidRequest(where, f'{short(value)} is not a number from {least}')
    if value > most:
        raise errors.InvalidRequest(where, f'{short(value)} is more than {most}')
    return value


# Values of metadata, extra specs, reports and files. Text is read as Nova does, with ``int`` and
# ``float``. The callers know the name of the value, and raise their error with it.


def whole(value, least=0, most=MAX_WHOLE):
    """Return the whole number that a value is or that its text names. Raise ValueError, with the
    reason, for any other value, and for a number out of the range."""
    try:
        if not _may_be_number(value) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError
        result = int(value)
    except ValueError:
        raise ValueError(f'{short(value)} is not a whole number') from None
    return _within(result, value, least, most)


def finite(value, least=-MAX_AMOUNT, most=MAX_AMOUNT):
    """Return the float that a value is or that its text names. Raise ValueError, with the reason,
    for any other value, and for a number out of the range."""
    try:
        if not _may_be_number(value):
            raise ValueError
        result = float(value)
    except (ValueError, OverflowError):
        raise ValueError(f'{short(value)} is not a number') from None
    return _within(result, value, least, most)


def _may_be_number(value):
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)


def _within(result, value, least, most):
    if not least <= result <= most:  # NaN is in no range
        raise ValueError(f'{short(value)} is not within {least} and {most}')
    return result


def moment(text):
    """Return the time that a text names in ISO 8601, basic or extended; without a zone it is in
    UTC. Raise ValueError, with the reason."""
    try:
        parsed = datetime.datetime.fromisoformat(text.strip().upper())
        zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)
        return zoned.astimezone(datetime.UTC)
    except (AttributeError, ValueError, OverflowError):
        raise ValueError(f'{short(text)} is not a time in ISO 8601') from None


def cpu_ids(text):
    """Return the CPU ids that a text like ``0-3,8,^2`` names. Raise ValueError, with the
    reason."""
    kept: set[int] = set()
    left_out: set[int] = set()
    left = MAX_CPUS
    if not isinstance(text, str):
        raise ValueError(f'{short(text)} is not a list of CPUs')
    for part in filter(None, map(str.strip, text.split(','))):
        match = CPU_RANGE.fullmatch(part)
        first, last = (int(match[2]), int(match[3] or match[2])) if match else (0, -1)
        if last < first:
            raise ValueError(f'{short(part)} is not a CPU range such as 0-3 or ^2')
        left -= last - first + 1
        if left < 0:
            raise ValueError(f'it names more than {MAX_CPUS} CPUs')
        (left_out if match[1] else kept).update(range(first, last + 1))
    return frozenset(kept - left_out)


def name(value, where):
    """Return the name itself. Raises InvalidRequest."""
    if not is_name(value):
        raise errors.InvalidRequest(
            where, f'{short(value)} is not a name of 1 to {NAME_LENGTH} characters'
        )
    return value


def plain(value, where):
    """Return the value itself: null, boolean, number, text, or lists and mappings of these, as in
    JSON.

    Raises InvalidRequest with the path to any other value, such as a versioned object.
    """
    _check_plain(value, where, MAX_DEPTH)
    return value


def _check_plain(value, where, left):
    if left < 0:
        raise errors.InvalidRequest(where[:NAME_LENGTH], f'values nest more than {MAX_DEPTH} deep')
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise errors.InvalidRequest(
                    where[:NAME_LENGTH], f'the key {short(key)} is not text'
                )
            _check_plain(item, f'{where}.{key[:64]}', left - 1)
    elif isinstance(value, list):
        for item in value:
            _check_plain(item, where, left - 1)
    elif isinstance(value, (int, float)):
        if not (
            -MAX_WHOLE <= value <= MAX_WHOLE if isinstance(value, int) else math.isfinite(value)
        ):
            raise errors.InvalidRequest(
                where[:NAME_LENGTH], f'{short(value)} is not a number of 64 bits'
            )
    elif value is not None and not isinstance(value, str):
        raise errors.InvalidRequest(where[:NAME_LENGTH], f'a {kind(value)} is not a plain value')


# What may have been meant by a word that is not known, for the texts of errors.

CLOSE = 0.7  # of 1 for equal words
# A comparison takes up to the cube of the length, and users choose the words: a hint is not worth
# more than some milliseconds.
MAX_LENGTH = 40  # characters of a word
MAX_WORDS = 100  # of nearly the same length


def question(word, words, close_enough=CLOSE):
    """Return `did you mean ...?` if one of the words is close enough, else an empty text."""
    close = closest(word, words, close_enough)
    return f'did you mean {close}?' if close else ''


def closest(word, words, close_enough=CLOSE):
    """Return the closest of the words; None if none is close enough.

    Look at short words only, and not at many.
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
    """Return the question as the end of an error: `; did you mean ...?`, or an empty text."""
    sentence = question(word, words)
    return sentence and f'; {sentence}'
