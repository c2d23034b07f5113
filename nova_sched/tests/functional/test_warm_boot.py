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
"""A warm boot passes through no more files and functions than it did."""

import importlib
import operator
import os
import re
import subprocess
import sys
from pathlib import Path

# What the last change left, with the record of the decision. Lower them when a boot takes a
# shorter way; do not raise them.
ROOT = Path(__file__).resolve().parents[3]
MAX_FILES, MAX_FUNCTIONS = 18, 115
ON_RABBITMQ = 'rpc/direct/'  # the trace is made on a bus inside the process


def test_a_warm_boot_takes_no_longer_way():
    # A process of its own: a profile of threads cannot be had in one that eventlet has patched.
    plain = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
    command = [sys.executable, '-W', 'ignore', '-m', 'nova_sched.tests.functional.warm_boot']
    made = subprocess.run(command, env=plain, capture_output=True, text=True, check=True)
    line = made.stdout.splitlines()[-1]
    files, functions = map(int, re.findall(r'\d+', line))
    assert files <= MAX_FILES, made.stdout
    assert functions <= MAX_FUNCTIONS, made.stdout
    traced = {
        (file, name)
        for file, names in re.findall(r'(?m)^(\S+)\.py: (.*)$', made.stdout)
        for name in names.split(', ')
    }
    page = (ROOT / 'doc/source/architecture.rst').read_text()
    block = page.partition('The landmarks of a warm boot')[2].partition('``python -m')[0]
    landmarks = {
        (file, name)
        for file, names in re.findall(r'(?m)^    (\S+)  +(\S.*)$', block)
        for name in names.split(', ')
    }
    assert ('engine/place', 'Placer.decide') in landmarks
    on_rabbitmq = {mark for mark in landmarks if mark[0].startswith(ON_RABBITMQ)}
    assert landmarks - on_rabbitmq <= traced
    assert on_rabbitmq
    for file, name in on_rabbitmq:
        module = importlib.import_module(f'nova_sched.{file}'.replace('/', '.'))
        assert callable(operator.attrgetter(name)(module))
