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
"""A router's copy of the catalogue: read after news, kept while no manager answers."""

import pytest

from nova_sched import errors
from nova_sched.extensions.queues.bus import KEPT_S, RETRY_S, CatalogueCopy
from nova_sched.tests.unit.extensions.queues.managed_queues import CATALOGUE


class Managers:
    """``version`` None: none answers."""

    def __init__(self):
        self.version, self.asked, self.now_s = 1, 0, 0.0

    def catalogue(self):
        self.asked += 1
        if self.version is None:
            raise errors.NoAnswer('catalogue', 'no manager')
        return {
            **CATALOGUE.to_plain(),
            'version': self.version,
            'aggregates': [],
            'disabled': False,
        }


@pytest.fixture
def managers():
    return Managers()


@pytest.fixture
def copy(managers):
    return CatalogueCopy(managers, lambda: managers.now_s)


def test_it_is_read_once(copy, managers):
    assert [copy.catalogue.version for _ in range(3)] == [1, 1, 1]
    assert managers.asked == 1


@pytest.mark.parametrize('heard, asked', [(1, 1), (2, 2)], ids=['old news', 'news'])
def test_after_news_it_is_read_again(copy, managers, heard, asked):
    assert copy.catalogue.version == 1
    managers.version = 2
    copy.hear(heard)
    assert (copy.catalogue.version, managers.asked) == (heard, asked)


def test_news_that_was_lost(copy, managers):
    assert copy.catalogue.version == 1
    managers.version, managers.now_s = 2, KEPT_S
    assert copy.catalogue.version == 2


def test_a_version_never_goes_back(copy, managers):
    managers.version = 5
    assert copy.catalogue.version == 5
    managers.version, managers.now_s = 4, KEPT_S
    assert copy.catalogue.version == 5


def test_while_no_manager_answers_the_last_one_counts(copy, managers):
    assert copy.catalogue.version == 1
    managers.version, managers.now_s = None, KEPT_S
    assert [copy.catalogue.version for _ in range(3)] == [1, 1, 1]
    assert managers.asked == 2
    managers.version, managers.now_s = 2, KEPT_S + RETRY_S
    assert copy.catalogue.version == 2


def test_without_any_answer_so_far(copy, managers):
    managers.version = None
    for _ in range(2):
        with pytest.raises(errors.NoAnswer):
            copy.catalogue  # noqa: B018, to read it is the test
    managers.version = 1
    assert copy.catalogue.version == 1
