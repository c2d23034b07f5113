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
"""Every measure is documented, and named as Prometheus wants it; alerts and dashboard name metrics
that exist."""

import json
import re
import subprocess
from pathlib import Path

import yaml

from nova_sched.measures import COUNTER, HISTOGRAM
from nova_sched.measures.catalogue import MEASURES
from nova_sched.tests.rows import each

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / 'doc' / 'source' / 'metrics.rst'
ALERTS = ROOT / 'etc' / 'metrics' / 'alerts.yaml'
DASHBOARD = ROOT / 'etc' / 'metrics' / 'dashboard.json'
ENTRY = re.compile(r'^``(nova_sched_\w+)``, (\w+)(?: by ([\w, ]+))?\n    (.+)', re.MULTILINE)
UNITS = '_seconds', '_bytes'


def shown(measure):
    return measure.name + ('_total' if measure.kind == COUNTER else '')


def series(measure):
    """The names of what Prometheus stores of a measure."""
    if measure.kind == HISTOGRAM:
        return {measure.name + end for end in ('_bucket', '_sum', '_count')}
    return {shown(measure)}


BY_SERIES = {name: measure for measure in MEASURES for name in series(measure)}


def test_each_measure_has_an_entry_of_the_page():
    found = [
        (name, kind, tuple(labels.split(', ')) if labels else ())
        for name, kind, labels, _ in ENTRY.findall(PAGE.read_text())
    ]
    assert sorted(found) == sorted((shown(one), one.kind, one.labels) for one in MEASURES)


def test_the_page_has_the_help_of_each_measure():
    text = ' '.join(PAGE.read_text().split())
    assert [one.name for one in MEASURES if one.text not in text] == []


@each('measure', list(MEASURES), ids=lambda one: one.name)
def test_names_follow_the_conventions(measure):
    assert re.fullmatch(r'nova_sched_[a-z_]+[a-z]', measure.name)
    assert not measure.name.endswith(('_total', '_count', '_sum', '_bucket'))
    assert all(re.fullmatch('[a-z_]+', label) for label in measure.labels)
    assert measure.text.endswith('.')
    if measure.kind == HISTOGRAM and measure.name != 'nova_sched_batch_orders':
        assert measure.name.endswith(UNITS)


def alerts():
    groups = yaml.safe_load(ALERTS.read_text())['groups']
    return {rule['alert']: rule for group in groups for rule in group['rules']}


def expressions():
    panels = json.loads(DASHBOARD.read_text())['panels']
    found = {(panel['title'], one['refId']): one for panel in panels for one in panel['targets']}
    return {
        **{name: rule['expr'] for name, rule in alerts().items()},
        **{name: one['expr'] for name, one in found.items()},
    }


@each('expression', list(expressions().values()), ids=map(str, expressions()))
def test_an_expression_names_what_exists(expression):
    names = set(re.findall(r'nova_sched_\w+', expression))
    assert names <= BY_SERIES.keys()
    known = {'le', 'instance', 'job'}.union(*(BY_SERIES[name].labels for name in names))
    for labels in re.findall(r'by \(([^)]*)\)', expression):
        assert set(labels.split(', ')) <= known
    assert {label for label, _ in re.findall(r'(\w+)(=~|!=|=)"', expression)} <= known


def test_each_alert_says_what_to_do():
    for rule in alerts().values():
        assert {'summary', 'description'} <= rule['annotations'].keys()
        assert rule['labels']['severity'] in ('critical', 'warning')


def test_panels_do_not_overlap():
    panels = json.loads(DASHBOARD.read_text())['panels']
    places = [(panel['gridPos']['x'], panel['gridPos']['y']) for panel in panels]
    assert len(set(places)) == len({panel['id'] for panel in panels}) == len(panels)


def test_promtool_accepts_alerts_and_panels(tmp_path):
    rules = [
        {'record': f'panel_{number}', 'expr': expression.replace('$__rate_interval', '5m')}
        for number, expression in enumerate(expressions().values())
    ]
    panels = tmp_path / 'panels.yaml'
    panels.write_text(yaml.safe_dump({'groups': [{'name': 'panels', 'rules': rules}]}))
    subprocess.run(['promtool', 'check', 'rules', ALERTS, panels], check=True)
