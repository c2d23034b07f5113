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
"""An error is in a line once."""

import io
import logging

import pytest
from oslo_config import cfg
from oslo_context import context
from oslo_log import formatters
from oslo_log import log as oslo_log

from nova_sched import errors
from nova_sched.cmd import log_format
from nova_sched.tests.rows import each

REFUSED = errors.StoreUnavailable('connection refused')


@pytest.fixture
def log(monkeypatch):
    """A logger, and the lines of the handler that oslo.log would have made."""
    conf, lines = cfg.ConfigOpts(), io.StringIO()
    oslo_log.register_options(conf)
    conf([])
    handler = logging.StreamHandler(lines)
    handler.setFormatter(formatters.ContextFormatter(config=conf))
    monkeypatch.setattr(logging.getLogger(), 'handlers', [handler])
    log_format.install()
    return logging.getLogger('nova_sched.test'), lines


def handled(error, work):
    try:
        raise error
    except type(error):
        work()


def test_an_error_that_the_line_states_is_not_appended(log):
    logger, lines = log
    handled(REFUSED, lambda: logger.warning('It waits: %s; it is repeated', REFUSED))
    assert lines.getvalue().count('connection refused') == 1
    assert 'StoreUnavailable' not in lines.getvalue()


@each('error', [REFUSED, NotImplementedError()])
def test_another_error_is_appended(log, error):
    logger, lines = log
    handled(error, lambda: logger.warning('It waits'))
    assert f'It waits: {type(error).__module__}'.removesuffix('builtins') in lines.getvalue()
    assert type(error).__name__ in lines.getvalue()


def test_the_remote_traceback_of_an_error_is_not_looked_for(log):
    logger, lines = log
    error = RuntimeError('no such queue\nTraceback of the server')
    handled(error, lambda: logger.error('It failed: no such queue'))
    assert lines.getvalue().endswith('It failed: no such queue\n')


def test_a_traceback_stays(log):
    logger, lines = log
    handled(REFUSED, lambda: logger.error('It failed: %s', REFUSED, exc_info=REFUSED))
    assert 'Traceback (most recent call last)' in lines.getvalue()
    assert 'connection refused: nova_sched.errors.StoreUnavailable' in lines.getvalue()


ODD = 'shop\n2026-11-26 ERROR forged \x1b[2J\u202e'
SHOWN = r'shop\n2026-11-26 ERROR forged \x1b[2J\u202e'


def test_texts_of_tenants_make_no_line_and_reach_no_terminal(log, monkeypatch):
    logger, lines = log
    monkeypatch.setattr(context._request_store, 'context', None, raising=False)  # until the end
    context.RequestContext(request_id=ODD, user_id=ODD)
    handled(ValueError(ODD), lambda: logger.warning('Group %s is refused', ODD))
    handled(RuntimeError(ODD), lambda: logger.error('It failed'))
    said = lines.getvalue()
    assert said.count('\n') == 2
    assert said.replace('\n', '').isprintable()
    assert f'Group {SHOWN} is refused' in said
    assert said.count(SHOWN) >= 5


def test_each_line_of_a_traceback_has_a_heading(log):
    logger, lines = log
    error = RuntimeError(ODD)
    handled(error, lambda: logger.error('It failed', exc_info=error))
    said = lines.getvalue().splitlines()
    assert '\x1b' not in lines.getvalue()
    assert all(line.partition('nova_sched.test')[1] for line in said)


def test_colours_of_the_operator_stay(log):
    logger, lines = log
    for which in ('default', 'context'):  # a test before may have left its context
        logging.getLogger().handlers[0].formatter.conf.set_override(
            f'logging_{which}_format_string', '\x1b[1m%(color)s%(message)s\x1b[0m'
        )
    logger.warning('It waits', extra={'color': '\x1b[31m'})
    assert lines.getvalue() == '\x1b[1m\x1b[31mIt waits\x1b[0m\n'


def test_another_formatter_is_kept(monkeypatch):
    handler, own = logging.StreamHandler(), formatters.JSONFormatter()
    handler.setFormatter(own)
    monkeypatch.setattr(logging.getLogger(), 'handlers', [handler])
    log_format.install()
    assert handler.formatter is own
