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
"""Opens the database of the configuration for the verbs; never makes it by accident."""

from nova_sched import errors
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.claims.upkeep import Upkeep
from nova_sched.db import address, schema
from nova_sched.db import engine as db_engine
from nova_sched.db.limits import Limits

UPGRADE = 'run nova-sched-manage db upgrade'


def connection(conf):
    """The database URL. Raises BadConfig if claims are kept elsewhere."""
    if conf.claims.store != 'sql':
        why = f'it is {conf.claims.store}: only the scheduler process knows its claims then'
        raise errors.BadConfig('[claims] store', why)
    return conf.database.connection


def existing(conf):
    """An engine on an existing database. Raises BadConfig or StoreUnavailable."""
    url = connection(conf)
    file = address.sqlite_file(url)
    if file is not None and not file.is_file():
        why = f'there is no file {file}; the scheduler makes it when it starts, or {UPGRADE}'
        raise errors.BadConfig('[database] connection', why)
    return db_engine.create(url, Limits.of(conf.database_limits).for_audit())


def opened(conf):
    """The claim store. Raises BadConfig or StoreUnavailable."""
    return SqlClaimStore(ready(conf))


def upkeep(conf):
    """The upkeep of the claim store. Raises BadConfig or StoreUnavailable."""
    return Upkeep(ready(conf))


def ready(conf):
    """An engine on the schema that this release needs. Raises BadConfig or StoreUnavailable."""
    engine = existing(conf)
    found, needed = schema.version(engine), schema.head()
    if found != needed:
        why = f'the schema is {found or "empty"}, but this release needs {needed}: {UPGRADE}'
        raise errors.BadConfig('[database] connection', why)
    return engine
