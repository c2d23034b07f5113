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
"""The format of oslo.log, without an error that the line states already, and without invisible
characters."""

import logging
import sys

from oslo_log import formatters

from nova_sched import logs


class OnceFormatter(logs.VisibleFormatter, formatters.ContextFormatter):
    """oslo.log appends the error that is being handled to each warning and error. This formatter
    leaves it out where the text of the line has it."""

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info or not _states(record, sys.exception()):
            return super().format(record)
        try:
            raise ValueError  # of the errors in progress, oslo.log appends all but a ValueError
        except ValueError:
            return super().format(record)


def _states(record: logging.LogRecord, error: BaseException | None) -> bool:
    # A bus appends the traceback of the other side to the text of an error.
    text = str(error or '').partition('\n')[0]
    return bool(text) and text in record.getMessage()


def install() -> None:
    """Let all handlers that oslo.log has made for text use it."""
    for handler in logging.getLogger().handlers:
        formatter = handler.formatter
        if type(formatter) is formatters.ContextFormatter:
            handler.setFormatter(
                OnceFormatter(
                    project=formatter.project,
                    version=formatter.version,
                    datefmt=formatter.datefmt,
                    config=formatter.conf,
                )
            )
