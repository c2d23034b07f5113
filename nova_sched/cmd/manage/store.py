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

"""Opens the database of the configuration for the verbs, and never makes it by accident."""

from nova_sched import errors
from nova_sched.conf import claims as claims_conf
from nova_sched.db import address, schema
from nova_sched.db import engine as db_engine
from nova_sched.db.limits import DatabaseLimits


def connection(conf):
    """The database URL. Raises BadConfig if claims are kept elsewhere."""
    if conf.claims.store != 'sql':
        why = f'it is {conf.claims.store}: only the scheduler process knows its claims then'
        raise errors.BadConfig('[claims] store', why)
    return claims_conf.connection(conf)


def existing(conf, limits=None):
    """An engine on an existing database, with ``limits``, or those for reading whole tables.
    Raises BadConfig or StoreUnavailable."""
    url = connection(conf)
    file = address.sqlite_file(url)
    if file is not None and not file.is_file():
        why = (
            f'there is no file {file}; the scheduler makes it when it starts, or {schema.UPGRADE}'
        )
        raise errors.BadConfig('[database] connection', why)
    limits = limits or DatabaseLimits.of(conf.database_limits).for_audit()
    return db_engine.for_command(url, limits)


def ready(conf, limits=None):
    """The same on the schema that this release needs. Raises BadConfig or StoreUnavailable."""
    engine = existing(conf, limits)
    schema.check(engine)
    return engine
