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
"""Our side, as a program asked by lines of JSON: a scheduler with its API, and the reader of
templates."""

import contextlib
import json
import sys
import tempfile
import threading
from pathlib import Path

from oslo_log import log

from nova_sched import errors, objects, rpc
from nova_sched.api import document
from nova_sched.cmd import api
from nova_sched.conf import CONF
from nova_sched.groups import template
from nova_sched.groups.definition import Image, Member, MemberFlavor
from nova_sched.groups.members import member_spec
from nova_sched.tests.functional.harness import TIMEOUT_S, running
from nova_sched.tests.options import settings
from nova_sched.tests.unit.api.callers import configuration, rest

DAY_S = 86400

RACKS = {f'{rack}-{number}': rack for rack in ('r0', 'r1', 'r2') for number in range(2)}
BODIES = {True: 'create_group', False: 'update_group'}


def read(body):
    """Members and policies of a group as the API is sent it."""
    schema = document.OPERATIONS[BODIES['name' in body]].media[document.JSON]
    if fault := document.fault(schema, body):
        return {'error': ': '.join(fault)}
    try:
        found = template.read(body['template'], flavors=body['flavors'], images=body['images'])
    except errors.TemplateError as error:
        return {'error': str(error)}
    return {
        'members': {path: _told(one) for path, one in found.members.items()},
        'policies': {one.name: [sorted(one.a), sorted(one.b)] for one in found.policies},
        'warnings': list(found.warnings),
    }


def _told(member):
    return {
        'flavor': member.flavor.name,
        'vcpus': member.flavor.vcpus,
        'image': member.image and dict(member.image.properties),
        'zone': member.availability_zone,
        'hints': dict(member.hints),
        'volume': member.boots_from_volume,
    }


class Scheduler:
    """A scheduler of six hosts in three racks, and what a conductor asks it."""

    def __init__(self, daemon):
        self._daemon = daemon
        runs = [objects.HVSpec(arch='x86_64', hv_type='kvm', vm_mode='hvm')]
        for host, rack in RACKS.items():
            daemon.add(
                host, instances=[], stats={'rack': rack, 'room': 'room'}, supported_hv_specs=runs
            )

    def boot(self, server):
        """Rack of the host for a server as Nova knows it, or why there is none."""
        member = Member(
            path=server['name'],
            flavor=MemberFlavor(**server['flavor']),
            image=Image(**server['image']),
            availability_zone=server['zone'],
        )
        spec = member_spec.spec_of(member, server['project'], 'demo', server['uuid'])
        spec.scheduler_hints = {name: [value] for name, value in server['hints'].items()}
        try:
            ((chosen, *_),) = self._daemon.scheduler.select_destinations(spec, [server['uuid']])
        except errors.NoValidHost as error:
            return {'error': str(error)}
        return {'rack': RACKS[chosen.service_host]}

    def end(self, uuid):
        """The server is gone."""
        self._daemon.claims.abort_claim(uuid)
        return {}


@contextlib.contextmanager
def serving():
    """The scheduler, and the address of its API."""
    with tempfile.TemporaryDirectory() as folder, running('fake://', Path(folder)) as daemon:
        groups = rpc.client.GroupsClient(daemon.bus, timeout_s=TIMEOUT_S)
        made = rest(
            configuration(), groups, rpc.client.QueuesClient(daemon.bus, timeout_s=TIMEOUT_S)
        )
        served = api.server(configuration(port=0, shutdown_timeout=5), made)
        thread = threading.Thread(target=served.serve, daemon=True)
        thread.start()
        try:
            yield Scheduler(daemon), f'http://127.0.0.1:{served.bind_addr[1]}'
        finally:
            served.stop()
            thread.join(TIMEOUT_S)


def main():
    log.register_options(CONF)
    # The hosts report once, and a busy machine may take longer for all tests than a host may be
    # silent.
    with settings({'default.service_down_time': DAY_S}), serving() as (scheduler, url):
        doors = {'read': read, 'boot': scheduler.boot, 'end': scheduler.end}
        print(json.dumps({'url': url}), flush=True)
        for line in sys.stdin:
            door, asked = json.loads(line)
            print(json.dumps(doors[door](asked)), flush=True)


if __name__ == '__main__':
    main()
