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
"""The database of the configuration: opens it for the verbs, and never makes it by accident; and
`db`, which brings its schema up to date."""

from nova_sched import errors
from nova_sched.cmd.manage import output
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


def missing_file(conf):
    """The file of a SQLite database that is not made yet; None for any other. Raises BadConfig."""
    file = address.sqlite_file(connection(conf))
    return None if file is None or file.is_file() else file


def is_upgraded_by_scheduler(engine, version):
    """Whether a scheduler upgrades a database of this schema when it starts."""
    return address.sqlite_file(engine.url) is not None and schema.is_older(version)


def existing(conf, limits=None):
    """An engine on an existing database, with ``limits``, or those for reading whole tables.
    Raises BadConfig or StoreUnavailable."""
    if (file := missing_file(conf)) is not None:
        why = (
            f'there is no file {file}; the scheduler makes it when it starts, or {schema.UPGRADE}'
        )
        raise errors.BadConfig('[database] connection', why)
    limits = limits or DatabaseLimits.of(conf.database_limits).for_audit()
    return db_engine.for_command(connection(conf), limits)


def ready(conf, limits=None):
    """The same on the schema that this release needs. Raises BadConfig or StoreUnavailable."""
    engine = existing(conf, limits)
    schema.check(engine)
    return engine


def upgrade(args, conf):
    """Upgrade the database to the newest schema

    Makes the tables in an empty database, and the file of a SQLite database that does not exist
    yet: as root, for the owner of its directory. A database that is up to date stays unchanged.
    Stop schedulers and managers of queues before it changes an older schema.

    Keys: database, before, version.
    """
    url = connection(conf)
    address.sqlite_file(url)  # a database in memory would be gone at once
    engine = db_engine.for_command(url, DatabaseLimits.of(conf.database_limits).for_upgrade())
    before = schema.version(engine)
    schema.upgrade(engine)
    document = {
        'database': address.shown(url),
        'before': before,
        'version': schema.version(engine),
    }
    name, version = document['database'], document['version']
    if before == version:
        words = f'{name} has schema {before} already.'
    else:
        words = f'{name} went from schema {before or "empty"} to {version}.'
    output.show(args, document, text=lambda _: words)
    return 0


def version(args, conf):
    """Show the schema of the database, and the one that this release needs

    Keys: database, version (null for an empty database), needed.
    """
    engine = existing(conf)
    document = {
        'database': address.shown(claims_conf.connection(conf)),
        'version': schema.version(engine),
        'needed': schema.HEAD,
    }
    state = f'has schema {document["version"]}' if document['version'] else 'is empty'
    words = f'{document["database"]} {state}; this release needs {document["needed"]}.'
    output.show(args, document, text=lambda _: words)
    return 0


VERBS = (('upgrade', upgrade), ('version', version))
