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
"""The benchmarks run. What they measure is not looked at."""

import json
import subprocess
import sys

import pytest

from nova_sched.tests.bench import __main__ as bench
from nova_sched.tests.cases import ONLY_WHOLE

# These take a minute or more, however little time they are given, or repeat others.
LONG = set(
    'batches calls-postgresql dashboards decisions hostile joint queues racks rules shared '
    'shared-mariadb spread start'.split()
)


@ONLY_WHOLE
@pytest.mark.parametrize('name', sorted({*bench.PARTS, *bench.ASKED_FOR} - LONG))
def test_a_benchmark_has_rows(name):
    options = '--only', name, '--seconds', '0.01', '--format', 'json'
    result = subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_sched.tests.bench', *options],
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    names = [row['what'] for row in json.loads(result.stdout)]
    assert names
    assert all(names)
