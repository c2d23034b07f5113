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
"""URLs with passwords, which must not be shown; and hosts that are this machine."""

import contextlib
import ipaddress
import re

from nova_sched import errors

NO_PORT = re.compile(r'(://[^/:@\[\]]*):(?!\d+(?:[/?#,]|\Z))[^@]*\Z')
SECRET_OPTION = re.compile(r'([?&][^=&]*pass[^=&]*=)[^&]*', re.IGNORECASE)


def shown(url: str) -> str:
    """Return a URL for output: without its passwords, also if a character in one is not escaped.

    Between the scheme and the last @, all but the first user may be part of a password.
    """
    scheme, mark, rest = url.partition('://')
    login, at, place = rest.rpartition('@')
    if ':' in login:
        login = f'{login.partition(":")[0]}:***'
    return SECRET_OPTION.sub(r'\1***', NO_PORT.sub(r'\1:***', f'{scheme}{mark}{login}{at}{place}'))


def check(url: str, where: str) -> None:
    """Raise BadConfig for a URL of which a part of the password would be taken for a host, a path
    or an option. ``where`` is the URL's option."""
    _, mark, rest = url.partition('://')
    authority = re.split('[/?#]', rest, maxsplit=1)[0]
    if '@' in (rest[len(authority) :] if mark else url):
        raise errors.BadConfig(where, f'it cannot be understood; {ADVICE}')


def is_loopback(host: str) -> bool:
    """Whether a name or an address is that of this machine for itself."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == 'localhost'


ADVICE = 'in user and password, write / as %2F, ? as %3F, # as %23, : as %3A and @ as %40'
