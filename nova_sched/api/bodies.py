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
"""Requests whose body is read as a whole or refused, whichever web server brings them."""

import io

import flask
from werkzeug import exceptions
from werkzeug.utils import cached_property


class Request(flask.Request):
    """Werkzeug ends a body of unknown length at the limit, as if it ended there."""

    @cached_property
    def stream(self):
        """The body. Raises RequestEntityTooLarge."""
        most = self.max_content_length
        is_in_chunks = self.environ.get('wsgi.input_terminated') and self.content_length is None
        if not is_in_chunks or most is None:
            return super().stream
        found = bytearray()
        while len(found) <= most and (more := self.environ['wsgi.input'].read(most + 1)):
            found += more
        if len(found) > most:
            raise exceptions.RequestEntityTooLarge
        return io.BytesIO(found)
