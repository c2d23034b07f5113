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
"""Tests of prepared statements: the same rows and the same errors as SQLAlchemy's own way."""

import pytest
import sqlalchemy as sa

from nova_sched.db.prepared import Prepared

TABLE = sa.Table(
    't', sa.MetaData(), sa.Column('name', sa.String(8), primary_key=True), sa.Column('n', sa.Integer)
)


@pytest.fixture
def database():
    engine = sa.create_engine('sqlite://')
    TABLE.metadata.create_all(engine)
    with engine.begin() as connection:
        yield engine.dialect, connection.connection.cursor()
    engine.dispose()


def test_parameters_go_by_name_and_constants_stay(database):
    dialect, cursor = database
    Prepared(sa.insert(TABLE), dialect).run(cursor, n=1, name='a')
    raise_it = sa.update(TABLE).where(TABLE.c.name == sa.bindparam('who')).values(n=TABLE.c.n + 4)
    Prepared(raise_it, dialect).run(cursor, who='a')
    Prepared(sa.select(TABLE.c.n).where(TABLE.c.name == sa.bindparam('who')), dialect).run(cursor, who='a')
    assert cursor.fetchall() == [(5,)]


@pytest.mark.parametrize(
    'statement, error',
    [
        pytest.param(sa.insert(TABLE), sa.exc.IntegrityError, id='a duplicate'),
        pytest.param(
            sa.select(sa.column('x')).select_from(sa.table('no')), sa.exc.OperationalError, id='no table'
        ),
    ],
)
def test_errors_are_those_of_sqlalchemy(database, statement, error):
    dialect, cursor = database
    Prepared(sa.insert(TABLE), dialect).run(cursor, name='a', n=1)
    given = {'name': 'a', 'n': 2} if error is sa.exc.IntegrityError else {}
    with pytest.raises(error):
        Prepared(statement, dialect).run(cursor, **given)
