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
"""Maps an error to an HTTP response: status, headers, and a body in the format of the OpenStack
API guidelines."""

import json
import logging

import werkzeug
from werkzeug import exceptions, http

from nova_sched import errors
from nova_sched.api.document import JSON, shortened

LOG = logging.getLogger(__name__)

SERVICE = 'nova_sched'
HELP = '/v1/openapi.json'
# Seconds for Retry-After: a conflict with other requests, or a service that does not answer.
SOON_S, LATER_S = 1, 10
# From the specific to the general: error, status, last part of the code, facts that the response
# includes.
TABLE = (
    (errors.TemplateError, 400, 'template', ('where', 'line', 'column')),
    (errors.InvalidRequest, 400, 'invalid', ('where',)),
    (errors.Invalid, 400, 'invalid', ()),
    (errors.NotFound, 404, 'not-found', ()),
    (errors.PolicyForbidden, 403, 'forbidden', ()),
    (
        errors.QuotaExceeded,
        403,
        'quota-exceeded',
        ('project', 'resource', 'asked', 'used', 'limit'),
    ),
    (errors.LimitsUnknown, 503, 'limits-unknown', ()),
    (errors.RateLimited, 429, 'rate-limited', ('retry_s',)),
    (errors.FlavorExists, 409, 'exists', ()),
    (errors.GroupRefused, 409, 'refused', ('details',)),
    (errors.NoValidHost, 409, 'refused', ()),
    (errors.GroupChanged, 412, 'changed', ('expected', 'found')),
    (errors.ServiceBusy, 503, 'busy', ()),
    (errors.StoreBusy, 503, 'busy', ()),
    (errors.StoreUnavailable, 503, 'unavailable', ()),
    (errors.BrokerUnavailable, 503, 'unavailable', ()),
    (errors.NoAnswer, 503, 'unavailable', ()),
    (errors.Outdated, 503, 'busy', ()),
    (errors.DeadlinePassed, 504, 'deadline', ()),
    (errors.StoreFull, 507, 'full', ()),
)
# Errors whose text goes to the log only, because it contains addresses of services.
PRIVATE = (
    errors.StoreUnavailable,
    errors.BrokerUnavailable,
    errors.NoAnswer,
    errors.StoreFull,
    errors.LimitsUnknown,
)
# Headers that Werkzeug adds to its errors.
KEPT = ('Allow', 'WWW-Authenticate')
WORDS = {
    'busy': 'Other requests were in conflict with this one; nothing was done. Repeat the request.',
    'unavailable': (
        'A service that the request needs does not answer; the request may or may not be '
        'done. Repeat it.'
    ),
    'limits-unknown': (
        'The limits of the project cannot be read from Keystone; nothing was done. '
        'Repeat the request.'
    ),
    'full': 'The database has no free space; nothing was done.',
    'internal': 'Internal error of the service; see its log.',
}


def of(error, environ):
    """The response to a request that ended with any error."""
    for kind, status, code, facts in TABLE:
        if isinstance(error, kind):
            if status >= 500:
                LOG.warning('Answered with status %d: %s', status, error)
            detail = WORDS[code] if isinstance(error, PRIVATE) else str(error)
            shown = {name: getattr(error, name, None) for name in facts}
            answer = response(status, code, detail, environ, shown)
            if isinstance(error, errors.RateLimited):
                answer.headers['Retry-After'] = str(error.retry_s)
            return answer
    if isinstance(error, exceptions.HTTPException) and error.code is not None:
        answer = response(error.code, code_of(error.code), error.description or '', environ)
        answer.headers.extend((name, value) for name, value in error.get_headers() if name in KEPT)
        return answer
    LOG.error('A request failed', exc_info=error)
    return response(500, 'internal', WORDS['internal'], environ)


def response(status, code, detail, environ, facts=None):
    """One error as a response. The body has ``facts`` in addition to the fields of the
    guidelines."""
    fault = {
        'request_id': environ.get('openstack.request_id', ''),
        'code': f'{SERVICE}.{code}',
        'status': status,
        'title': http.HTTP_STATUS_CODES[status],
        'detail': shortened(detail, 2000),
        'links': [{'rel': 'help', 'href': environ.get('SCRIPT_NAME', '') + HELP}],
    }
    body = {'errors': [{**fault, **(facts or {})}]}
    answer = werkzeug.Response(json.dumps(body), status=status, content_type=JSON)
    if status == 503:
        answer.headers['Retry-After'] = str(SOON_S if code == 'busy' else LATER_S)
    return answer


def code_of(status):
    """The last part of the code of an error that has only a status."""
    return http.HTTP_STATUS_CODES[status].lower().replace(' ', '-')
