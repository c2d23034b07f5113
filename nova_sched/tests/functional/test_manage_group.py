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
"""nova-sched-manage group: the verbs that ask a running scheduler."""

import json
import re

import pytest
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.cmd.manage import commands
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import outcome
from nova_sched.tests.functional.manage import runner
from nova_sched.tests.functional.test_rpc_groups import TEMPLATE


@pytest.fixture
def manage(daemon, tmp_path, capsys):
    """``manage('show', UUID)``: exit status, output, errors."""
    return runner('group', tmp_path, capsys)


@pytest.fixture
def template(tmp_path):
    file = tmp_path / 'shop.yaml'
    file.write_text(TEMPLATE)
    return str(file)


@pytest.fixture
def cloud(daemon):
    for rack in ('r1', 'r2', 'r3'):
        daemon.add(f'{rack}-a', vcpus=4, stats={'rack': rack})
    yield daemon
    for one in daemon.groups.list():
        if one.status != 'deleting':
            daemon.groups.delete(one.uuid)


@pytest.fixture
def shop(cloud, manage, template):
    """The UUID of a group of two."""
    words = '--parameter count=2 --project p --name shop --format json'
    status, out, _ = manage('create', template, *words.split())
    assert status == 0
    return json.loads(out)['uuid']


def test_create(cloud, manage, template):
    status, out, _ = manage('create', template, '--dry-run', '--format', 'json')
    tried = json.loads(out)
    assert (status, tried['dry_run'], len(tried['members'])) == (0, True, 3)
    assert cloud.table('claims') == []
    status, out, err = manage(
        'create', template, '--name', 'shop', '--project', 'p', '--user', 'u', '--ttl', '7200'
    )
    assert (status, err) == (0, '')
    assert 'Members     3: 3 planned' in out
    assert re.search(r'the plan\s+expires in (119 min|2 h)', out)
    (made,) = cloud.groups.list(project_id='p')
    assert (made.name, made.user_id) == ('shop', 'u')


def test_a_group_that_cannot_be(cloud, manage, template):
    words = 'create', template, '--parameter', 'count=4'
    status, out, err = manage(*words)
    assert (status, out) == (1, '')
    assert err.startswith('nova-sched-manage: The group cannot be placed.')
    status, out, _ = manage(*words, '--format', 'json')
    refusal = json.loads(out)
    assert (status, bool(refusal['refused']), bool(refusal['details'])) == (1, True, True)


def test_a_template_that_makes_no_sense(cloud, manage, template, tmp_path, shop):
    file = tmp_path / 'bad.yaml'
    file.write_text(TEMPLATE.replace('anti-affinity', 'hate'))
    verbs = ('validate',), ('create',), ('update', shop)
    results = [manage(*words, str(file)) for words in verbs]
    assert [(status, out) for status, out, _ in results] == [(1, '')] * 3
    assert len({err for *_, err in results}) == 1
    assert re.match(rf'{re.escape(str(file))}:18:\d+: resources\.', results[0][2])
    for words in verbs[1:]:
        status, out, err = manage(*words, template, '--parameter', 'count=0')
        assert (status, out) == (1, '')
        assert err.endswith('resources: there is no member\n')
    assert len(cloud.groups.show(shop).members) == 2


def test_show_and_list(cloud, manage, shop):
    status, out, _ = manage('show', shop)
    assert status == 0
    assert f'Group       {shop}' in out
    assert re.search(r'app/web/1 +\| planned +\| r\d-a', out)
    status, out, err = manage('show', uuid_of('nothing'))
    assert (status, out) == (1, '')
    assert 'There is no placement group' in err
    assert manage('show', shop, '--project', 'q')[0] == 1
    status, out, _ = manage('list', '--format', 'json')
    assert [(row['uuid'], row['status']) for row in json.loads(out)] == [(shop, 'planned')]
    assert shop in manage('list', '--name', 'shop', '--limit', '1')[1]
    assert shop not in manage('list', '--project', 'q')[1]


def test_a_list_is_watched(cloud, manage, shop, monkeypatch):
    """The second time the group is gone."""
    runs = iter([lambda: cloud.groups.delete(shop), _interrupt])
    monkeypatch.setattr(commands, 'sleep', lambda seconds: next(runs)())
    status, out, err = manage('list', '--watch', '5', '--format', 'value', '--column', 'uuid')
    assert (status, out, err) == (0, f'{shop}\n', '')


def _interrupt():
    raise KeyboardInterrupt


def test_plan_is_a_tree(cloud, manage, shop):
    status, out, _ = manage('plan', shop, '--replan')
    assert status == 0
    lines = out.splitlines()
    start = lines.index('the cloud')
    assert lines[start + 1] == '└── zone nova'
    assert re.fullmatch(r'    ├── rack r\d', lines[start + 2])
    assert re.fullmatch(r'    │   └── host r\d-a', lines[start + 3])
    assert re.fullmatch(r'    │       └── app/web/\d  planned', lines[start + 4])


def test_a_group_until_its_end(cloud, manage, template, shop):
    before = cloud.groups.show(shop).expires_at
    status, out, _ = manage('renew', shop, '--ttl', '9000', '--format', 'json')
    assert (status, json.loads(out)['expires_at'] > before.isoformat()) == (0, True)
    status, out, _ = manage('update', shop, template, '--generation', '1', '--dry-run')
    assert (status, 'a dry run' in out) == (0, True)
    status, out, _ = manage('update', shop, template, '--generation', '1', '--format', 'json')
    changed = json.loads(out)
    assert (status, changed['generation'], len(changed['members'])) == (0, 2, 3)
    status, out, err = manage('update', shop, template, '--generation', '1')
    assert (status, out, 'another request has changed it' in err) == (1, '', True)
    status, out, _ = manage('delete', shop, '--dry-run')
    assert (status, 'Members     3: 3 unplaced' in out) == (0, True)
    assert manage('delete', shop, '--generation', '9')[0] == 1
    assert manage('delete', shop) == (0, f'Group {shop} is deleted.\n', '')
    assert isinstance(outcome(cloud.groups.show, shop), errors.GroupNotFound)
    assert cloud.table('claims') == []


def test_topology(cloud, manage):
    status, out, _ = manage('topology')
    assert status == 0
    assert '| rack  |       3 |' in out
    assert '3 nodes report no room' in out
    status, out, _ = manage('topology', '--format', 'json')
    assert json.loads(out)['domains'] == {'host': 3, 'rack': 3, 'room': 3, 'zone': 1}
    cloud.add('alone')
    assert '1 node reports no rack: alone' in manage('topology')[1]


@pytest.mark.parametrize('format_', ['table', 'csv', 'value', 'yaml', 'json'])
def test_texts_from_outside_reach_no_terminal(daemon, manage, template, format_):
    """The rack is a host's own word, and the parameters are a tenant's."""
    odd = 'r1\x1b[2J\u202e\n| forged |'
    daemon.add('odd-a', 'odd-b', vcpus=4, stats={'rack': odd})
    context = RequestContext(overwrite=False, project_id='p', user_id='u')
    made = daemon.groups.create(TEMPLATE, name='shop', parameters={'count': 1}, context=context)
    assert made.members[0].domains['rack'] == odd
    for verb in ('show', 'plan', 'list'):
        words = [made.uuid] if verb != 'list' else []
        status, out, err = manage(verb, *words, '--format', format_)
        assert (status, err) == (0, '')
        assert out.replace('\n', '').isprintable()
        assert not any(line.startswith('| forged') for line in out.splitlines())
        if verb == 'plan' and format_ == 'table':
            assert r'rack r1\x1b[2J\u202e\n| forged |' in out
        if verb == 'show' and format_ == 'json':
            assert json.loads(out)['members'][0]['domains']['rack'] == odd
    daemon.groups.delete(made.uuid)
