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
"""The example of the manual: the queue model in one process."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'examples' / 'queues'


def test_all_of_it_in_one_process(tmp_path):
    """The folder that it runs in gets the database and what the agents keep."""
    program, config = EXAMPLES / 'one_process.py', EXAMPLES / 'one-process.conf'
    found = subprocess.run(
        [sys.executable, str(program), '--config-file', str(config)],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[:3] == [
        'queue fallback: 0 wait, 1 take from it',
        'queue results: 0 wait, 1 take from it',
        'queue tiny: 0 wait, 2 take from it',
    ]
    places = [
        re.fullmatch(r'server (\d) runs on host (one|two)', line).group(1) for line in lines[3:7]
    ]
    assert places == ['1', '2', '3', '4']
    assert lines[7:] == ['Project demo: 1 servers asked, 4 of 4 used', '4 servers are deleted']
