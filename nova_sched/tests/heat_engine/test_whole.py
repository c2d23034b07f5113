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
"""The whole way: Heat, our REST API, the scheduler, and servers on the hosts that were planned for
them."""

import json
import urllib.request
from pathlib import Path

import pytest
import yaml

from nova_sched.tests.heat_engine.cloud import TOKEN
from nova_sched.tests.heat_engine.templates import (
    fresh_name,
    members,
    of,
    policy,
    server,
    servers,
    template,
)

SHOP = Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'examples' / 'heat' / 'shop.yaml'


@pytest.fixture
def real(cloud, ours):
    """The cloud with our scheduler in it, of three racks with two hosts each."""
    cloud.ours = ours
    return cloud


def groups(ours):
    """Status of all groups of the project."""
    asked = urllib.request.Request(f'{ours.url}/v1/groups', headers={'X-Auth-Token': TOKEN})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return [one['status'] for one in json.load(answer)['groups']]


def test_the_example_of_the_manual(heat, real, ours, stack):
    shop = yaml.safe_load(SHOP.read_text())
    made = stack(shop, parameters={'count': 2})
    (told,) = heat.show(made['stack_identity'])['outputs']
    assert {path: at['rack'] for path, at in told['output_value'].items()} == {
        'shop/front/web/0': real.racks['web-0'],
        'shop/front/web/1': real.racks['web-1'],
        'shop/database': real.racks['database'],
    }
    assert real.racks['web-0'] != real.racks['web-1']

    before = dict(real.racks)
    done = heat.update(made['stack_identity'], shop, parameters={'count': 3})
    assert done['stack_status'] == 'COMPLETE', done['stack_status_reason']
    assert before.items() <= real.racks.items()
    assert {real.racks[f'web-{number}'] for number in range(3)} == {'r0', 'r1', 'r2'}

    before = dict(real.racks)
    done = heat.update(made['stack_identity'], shop, parameters={'count': 4})
    assert done['stack_status'] == 'FAILED'
    assert 'The scheduler refuses: ' in done['stack_status_reason']
    assert 'shop/front: anti-affinity at rack' in done['stack_status_reason']
    assert '3 of 4' not in done['stack_status_reason'], 'capacity stays out of refusals'
    assert real.racks == before

    heat.delete(made['stack_identity'])
    assert groups(ours) == []


APART = members('pool', policies=[policy('anti-affinity', 'rack')])


def test_a_scaling_group_finds_places(heat, real, stack):
    inner = server('pool', name='pool-%index%')
    pool = of('OS::NovaSched::AutoScalingGroup', min_size=1, max_size=4, resource=inner)
    grow = of(
        'OS::Heat::ScalingPolicy',
        adjustment_type='change_in_capacity',
        auto_scaling_group_id={'get_resource': 'pool'},
        scaling_adjustment=1,
    )
    made = stack(template(pool=pool, grow=grow, apart=APART))
    for _ in range(2):
        heat.signal(made['stack_identity'], 'grow')
    assert sorted(real.racks.values()) == ['r0', 'r1', 'r2']
    with pytest.raises(Exception, match='The scheduler refuses'):
        heat.signal(made['stack_identity'], 'grow')
    assert len(real.racks) == 3
    heat.delete(made['stack_identity'])


def test_a_group_without_a_place_has_no_server(heat, real, ours):
    done = heat.create(fresh_name(), template(pool=servers('pool', 4), apart=APART))
    assert done['stack_status'] == 'FAILED'
    assert 'The scheduler refuses: ' in done['stack_status_reason']
    assert (real.servers, groups(ours)) == ({}, [])
