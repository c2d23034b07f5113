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
"""When a server will end, as its request says."""

import contextlib
import functools
import logging
import re

from nova_sched import words

LOG = logging.getLogger(__name__)

LEASE_END, TTL = 'lease_end', 'ttl'  # scheduler hints
EXTRA_SPEC, IMAGE_PROPERTY = 'nova_sched:ttl', 'nova_sched_ttl'
DATE = re.compile(r'\s*[0-9]{8}\s*')  # 20261126; as seconds it would be a day of 1970
MAX_LIFETIME_S = 10**10  # of a lifetime: its end has to be a date


def end_s(hosts, request):
    """Return the expected end of the request's server, in seconds since the epoch by the store's
    clock; None: not known.

    The end of a lease (seconds since the epoch, or ISO 8601) comes first. A lifetime (seconds)
    counts from now for a new server; one that has a claim already keeps the end of that claim.
    """
    if request.hints and (lease := request.hint(LEASE_END)) is not None:
        return _moment(f'the hint {LEASE_END}', str(lease))
    for row in hosts.places.get(request.instance_uuid, ()):
        claim = hosts.nodes[row].claims.get(request.instance_uuid)
        if claim is not None and claim.ends_s is not None:
            return claim.ends_s
    for where, value in (
        (f'the hint {TTL}', request.hint(TTL) if request.hints else None),
        (f'the extra spec {EXTRA_SPEC}', request.extra_specs.get(EXTRA_SPEC)),
        (f'the image property {IMAGE_PROPERTY}', request.image_properties.get(IMAGE_PROPERTY)),
    ):
        if value not in (None, ''):
            lifetime_s = _seconds(where, str(value))
            return None if lifetime_s is None else hosts.now_s + lifetime_s
    return None


# Each text is read, and complained about, once.


@functools.lru_cache(maxsize=4096)
def _seconds(where, text):
    try:
        return words.finite(text, 0, MAX_LIFETIME_S)
    except ValueError:
        return _ignored(where, text, 'seconds from 0')


@functools.lru_cache(maxsize=4096)
def _moment(where, text):
    with contextlib.suppress(ValueError):
        if not DATE.fullmatch(text):
            return words.finite(text, 0, words.MAX_DATE_S)
    with contextlib.suppress(ValueError):
        return words.finite(words.moment(text).timestamp(), 0, words.MAX_DATE_S)
    return _ignored(where, text, 'a time in seconds or ISO 8601')


def _ignored(where, text, wanted):
    LOG.warning(
        '%r in %s is not %s; the end of these servers counts as unknown', text, where, wanted
    )
