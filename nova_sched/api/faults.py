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
"""How an error leaves by HTTP: status, headers, and a body of the form that OpenStack's guidelines
have."""

import json
import logging

import werkzeug
from werkzeug import exceptions, http

from nova_sched import errors
from nova_sched.api.document import JSON, shortened

LOG = logging.getLogger(__name__)

SERVICE = 'nova_sched'
HELP = '/v1/openapi.json'
# Seconds after which a caller may ask again: others were in its way, or something is away.
SOON_S, LATER_S = 1, 10
# From the particular to the general: error, status, last part of the code, facts that the caller
# gets.
TABLE = (
    (errors.TemplateError, 400, 'template', ('where', 'line', 'column')),
    (errors.InvalidRequest, 400, 'invalid', ('where',)),
    (errors.Invalid, 400, 'invalid', ()),
    (errors.NotFound, 404, 'not-found', ()),
    (errors.FlavorExists, 409, 'exists', ()),
    (errors.GroupRefused, 409, 'refused', ('details',)),
    (errors.NoValidHost, 409, 'refused', ()),
    (errors.GroupChanged, 412, 'changed', ('expected', 'found')),
    (errors.StoreBusy, 503, 'busy', ()),
    (errors.StoreUnavailable, 503, 'unavailable', ()),
    (errors.BrokerUnavailable, 503, 'unavailable', ()),
    (errors.NoAnswer, 503, 'unavailable', ()),
    (errors.StoreFull, 507, 'full', ()),
)
# What an operator is told, and a caller is not: addresses of databases stand in it.
PRIVATE = (errors.StoreUnavailable, errors.BrokerUnavailable, errors.NoAnswer, errors.StoreFull)
# Of the headers that Werkzeug gives its errors.
KEPT = ('Allow', 'WWW-Authenticate')
WORDS = {
    'busy': 'Others were in the way; nothing is done. Ask the same again.',
    'unavailable': 'What is needed for that does not answer; it is done or not. Ask the same again.',
    'full': 'The database has no room; nothing is done.',
    'internal': 'The service has met a mistake of its own; its log has more.',
}


def of(error, environ):
    """The response to a request that ended with an error, whatever it is."""
    for kind, status, code, facts in TABLE:
        if isinstance(error, kind):
            if status >= 500:
                LOG.warning('%s', error)
            detail = WORDS[code] if isinstance(error, PRIVATE) else str(error)
            told = {name: getattr(error, name, None) for name in facts}
            return response(status, code, detail, environ, told)
    if isinstance(error, exceptions.HTTPException) and error.code is not None:
        made = response(error.code, code_of(error.code), error.description or '', environ)
        made.headers.extend((name, value) for name, value in error.get_headers() if name in KEPT)
        return made
    LOG.error('A request failed', exc_info=error)
    return response(500, 'internal', WORDS['internal'], environ)


def response(status, code, detail, environ, facts=None):
    """One error as a response; ``facts`` stand beside the fields of the guidelines."""
    fault = {
        'request_id': environ.get('openstack.request_id', ''),
        'code': f'{SERVICE}.{code}',
        'status': status,
        'title': http.HTTP_STATUS_CODES[status],
        'detail': shortened(detail, 2000),
        'links': [{'rel': 'help', 'href': environ.get('SCRIPT_NAME', '') + HELP}],
    }
    body = {'errors': [{**fault, **(facts or {})}]}
    made = werkzeug.Response(json.dumps(body), status=status, content_type=JSON)
    if status == 503:
        made.headers['Retry-After'] = str(SOON_S if code == 'busy' else LATER_S)
    return made


def code_of(status):
    """The end of the code of an error that has nothing but its status."""
    return http.HTTP_STATUS_CODES[status].lower().replace(' ', '-')
