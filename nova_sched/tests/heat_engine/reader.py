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
"""What our own reader makes of a template, in an environment where the whole package is."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
READ = """
import json, sys
from nova_sched import errors
from nova_sched.groups import template

def told(body):
    try:
        read = template.read(body['template'], flavors=body['flavors'], images=body['images'])
    except errors.TemplateError as error:
        return {'error': str(error)}
    return {
        'members': {path: {
            'flavor': one.flavor.name, 'vcpus': one.flavor.vcpus, 'zone': one.availability_zone,
            'image': one.image and dict(one.image.properties),
            'hints': dict(one.hints), 'volume': one.boots_from_volume,
        } for path, one in read.members.items()},
        'policies': {one.name: [sorted(one.a), sorted(one.b)] for one in read.policies},
        'warnings': list(read.warnings),
    }

for line in sys.stdin:
    print(json.dumps(told(json.loads(line))), flush=True)
"""


def interpreter() -> Path:
    """The Python of an environment with our package: NOVA_SCHED_PYTHON, or the one that tools/test makes."""
    named = os.environ.get('NOVA_SCHED_PYTHON')
    if named:
        return Path(named)
    # Not with the Python of Heat's environment.
    env = {name: value for name, value in os.environ.items() if name != 'VIRTUAL_ENV'}
    folders = (folder for folder in os.get_exec_path() if not Path(folder).is_relative_to(sys.prefix))
    env['PATH'] = os.pathsep.join(folders)
    subprocess.run(['bash', '-euc', '. tools/env.sh && make_venv'], cwd=ROOT, env=env, check=True)
    return ROOT / '.venv' / 'bin' / 'python'


@contextlib.contextmanager
def reading(python):
    """A function from what was sent to members and policies; fails with what the reader says against it."""
    with subprocess.Popen(
        [python, '-c', READ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:

        def read(body):
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(body) + '\n')
                process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, process.stderr.read()
            told = json.loads(answer)
            assert 'error' not in told, told['error']
            assert told.pop('warnings') == []
            return told

        yield read
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
