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
"""Rows of data in one test."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from nova_sched.tests.cases import IS_THOROUGH, ONLY_THOROUGH


def each(
    names: str,
    rows: Iterable[object],
    ids: Callable[[object], object] | Sequence[object] | None = None,
) -> Callable[[Callable], Callable]:
    """Decorator: the test is run for each row, as with ``pytest.mark.parametrize``, which it is
    called like. But it stays one test, and rows share its fixtures.

    All rows are tried. Those that fail are raised together, each with the name of its row.
    """
    arguments = [name.strip() for name in names.split(',')]
    known = [row if hasattr(row, 'marks') else pytest.param(row) for row in rows]
    assert all(mark == ONLY_THOROUGH for row in known for mark in row.marks)
    known = [row for row in known if IS_THOROUGH or not row.marks]

    def name(number: int) -> object:
        if known[number].id or ids is None:
            return known[number].id or number
        return ids(known[number].values[0]) if callable(ids) else ids[number]

    def decorate(test: Callable) -> Callable:
        parameters = inspect.signature(test).parameters
        assert set(arguments) <= parameters.keys(), (arguments, list(parameters))

        @functools.wraps(test)
        def run(*args: object, **given: object) -> None:
            failed = []
            for number, row in enumerate(known):
                values = row.values
                if len(arguments) > 1 and len(values) == 1:
                    (values,) = values
                try:
                    test(*args, **given, **dict(zip(arguments, values, strict=True)))
                except (Exception, pytest.fail.Exception, BaseExceptionGroup) as error:  # noqa: BLE001
                    error.add_note(f'Row {name(number)}: {values}'[:1000])
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f'{len(failed)} of {len(known)} rows', failed)

        left = [one for name, one in parameters.items() if name not in arguments]
        run.__signature__ = inspect.Signature(left)
        return run

    return decorate


def table(names: str, rows: Mapping[str, object]) -> Callable[[Callable], Callable]:
    """Decorator: as ``each``, with the values of each row under its name.

    They are a tuple, or the value itself if there is one argument.
    """
    return each(names, _params(names, rows))


def each_afresh(names: str, rows: Mapping[str, object]) -> pytest.MarkDecorator:
    """Decorator: as ``table``, but each row is a test of its own, with its own fixtures."""
    return pytest.mark.parametrize(names, _params(names, rows))


def _params(names: str, rows: Mapping[str, object]) -> list:
    return [
        pytest.param(*(row if ',' in names else [row]), id=name)  # type: ignore[misc]
        for name, row in rows.items()
    ]
