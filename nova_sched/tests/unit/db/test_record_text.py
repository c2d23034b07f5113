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
"""The text of decision records: short, and read again as they were."""

import json

import pytest

from nova_sched.db import decision_log

SILENT = {'filter': 'A', 'seen': 9, 'left': 9, **decision_log.SILENT}
SAYS = {**SILENT, 'left': 0, 'why': 'full', 'removed': ['a'], 'nearest': 'a', 'nearest_why': '1'}


def weights(*names):
    return [
        {'weigher': name, 'raw': 2.0, 'normalised': None, 'multiplier': -1.0, 'weight': 0.5}
        for name in names
    ]


def placed(*weighed, **more):
    """An instance on a host and its alternates, with these weights; None: without any."""
    first, *rest = (
        {'host': f'h{number}', **({} if one is None else {'weights': one, 'weight': 0.5})}
        for number, one in enumerate(weighed)
    )
    return {'instance_uuid': 'i', **first, 'alternates': rest, **more}


RECORDS = {
    'no decision': {'request_id': 'r'},
    'a refusal': {'filters': [SILENT, SAYS], 'placed': [], 'reason': 'none'},
    'placed': {'filters': [SILENT], 'placed': [placed(weights('W', 'V'), weights('W', 'V'))]},
    'not weighed': {'placed': [placed(None, None)]},
    'one host was left': {'placed': [placed([])]},
    'the first ones are weighed': {'placed': [placed(weights('W')), placed(None, None)]},
    'no alternates': {'placed': [placed(weights('W'))]},
    'of different weighers': {'placed': [placed(weights('W')), placed([])]},
}


@pytest.mark.parametrize('record', RECORDS.values(), ids=RECORDS)
def test_what_is_read_is_what_was_written(record):
    before = json.dumps(record)
    assert decision_log.load(decision_log.dump(record)) == record
    assert json.dumps(record) == before


@pytest.mark.parametrize('record', RECORDS.values(), ids=RECORDS)
def test_the_text_of_an_earlier_release(record):
    assert decision_log.load(json.dumps(record)) == record


def test_names_stand_once():
    text = decision_log.dump(
        {'filters': [SILENT] * 5, 'placed': [placed(*[weights('Weigher')] * 3)]}
    )
    assert (text.count('Weigher'), text.count('nearest'), text.count('normalised')) == (1, 0, 0)
