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
"""The report of a demonstration, from plain data."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from nova_sched.tests.demo import page

RESULT = page.DemoResult(
    steps=[('Race', '5 < 6 & all placed')],
    racks={'r1': {'a': (0.0, 1.0), 'b': (0.25, 0.5)}, 'r2': {'c': (1.0, 1.0)}},
    asked='a server with <4> CPUs',
    reason='There are not enough hosts.',
    funnel=[('Zone', 3, 1), ('Traits', 1, 0)],
    latencies_s=[0.001 * n for n in range(1, 101)],
    tree='the cloud\n└── host a',
)
SVG = '{http://www.w3.org/2000/svg}'


def plots(text):
    """The <svg> elements of a report, each without namespaces of its own."""
    return list(ET.fromstring(text.partition('\n')[2]).iter(f'{SVG}svg'))


def test_it_is_one_file_that_reads_nothing_else():
    text = page.page(RESULT)
    assert text.startswith('<!DOCTYPE html>\n')
    assert not re.search(r'(src|href)=|url\(|@import', text)
    HTMLParser().feed(text)
    assert len(plots(text)) == 3


def test_texts_are_kept_as_they_are():
    words = ' '.join(ET.fromstring(page.page(RESULT).partition('\n')[2]).itertext())
    for text in ('5 < 6 & all placed', RESULT.asked, RESULT.reason, RESULT.tree):
        assert text in words


def test_a_heat_map_has_a_square_for_each_host_before_and_after():
    titles = [one.text for one in page.heat_maps(RESULT.racks).iter('title')]
    assert titles == ['a: 0%', 'a: 100%', 'b: 25%', 'b: 50%', 'c: 100%', 'c: 100%']


@pytest.mark.parametrize(
    'share, expected',
    [
        pytest.param(0.0, '#e8f0f7', id='empty'),
        pytest.param(1.0, '#084081', id='full'),
        pytest.param(1.5, '#084081', id='too full'),
        pytest.param(0.5, '#7898bc', id='half'),
    ],
)
def test_colour(share, expected):
    assert page.colour(share) == expected


def test_a_funnel_names_each_rule_with_its_hosts():
    assert [one.text for one in page.funnel(RESULT.funnel).iter('text')] == [
        'Zone', '3 → 1', 'Traits', '1 → 0',
    ]  # fmt: skip


def test_a_histogram_counts_every_call():
    drawn = page.histogram(RESULT.latencies_s)
    assert sum(int(one.text.split()[0]) for one in drawn.iter('title')) == 100
    assert any('100 calls; p50 51 ms, p99 100 ms' in one.text for one in drawn.iter('text'))


def test_nothing_measured():
    empty = dataclasses.replace(RESULT, racks={}, funnel=[], latencies_s=[])
    assert len(plots(page.page(empty))) == 3


def test_a_picture_has_all_plots_below_each_other():
    inner = ET.fromstring(page.picture(RESULT)).findall(f'{SVG}svg')
    assert [int(one.get('y')) for one in inner] == sorted({int(one.get('y')) for one in inner})
    assert len(inner) == 3
