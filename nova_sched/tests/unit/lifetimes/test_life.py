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
"""Tests of what a claim keeps for learning."""

import pytest

from nova_sched.lifetimes.life import ANY, Kind, Life


def test_a_life_is_read_as_it_was_written():
    life = Life('m1.small', 3, 1_700_000_000.25)
    assert Life.from_json(life.to_json()) == life


@pytest.mark.parametrize('project, told', [('p', 'p'), (None, '')])
def test_its_kind(project, told):
    """A server without a project is not one of any project."""
    assert Life('m1.small', 3, 0.0).kind(project) == Kind(told, 'm1.small', 3)


def test_the_kind_of_its_flavor():
    assert Kind('p', 'm1.small', 3).of_flavor == Kind(None, 'm1.small', None)


@pytest.mark.parametrize(
    'kind, weight', [(Kind('p', 'f', 1), 1), (Kind('p', 'f', 4), 0.5), (ANY, 1)]
)
def test_servers_of_one_request_count_less(kind, weight):
    assert kind.weight == weight
