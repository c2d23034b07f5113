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
"""What is kept of a command's output, and how much of the disk it takes."""

import os
import subprocess

import pytest

from nova_sched.queues.drivers.command_output import LONGEST, TAIL, CommandOutput


@pytest.mark.parametrize(
    'written, text',
    [
        pytest.param(b'', '', id='nothing'),
        pytest.param(b'a\nb\tc\n', 'a\nb\tc\n', id='lines'),
        pytest.param(b'x' * TAIL + b'y', 'x' * (TAIL - 1) + 'y', id='the end of a long text'),
        pytest.param(b'\xff\xc3\xbc', '\ufffd\u00fc', id='no text'),
        pytest.param(b'\x1b[2J\0', '\ufffd[2J\ufffd', id='what steers a terminal'),
    ],
)
def test_text(written, text):
    with CommandOutput() as output:
        os.write(output.file.fileno(), written)
        assert output.text == text


def test_a_command_that_prints_without_end_takes_a_bounded_disk():
    with CommandOutput() as output:
        for number in range(3):
            size = LONGEST + 1
            command = f'head -c {size} /dev/zero | tr "\\0" x; echo {number}'
            subprocess.run(['sh', '-c', command], stdout=output.file, check=True)
            output.bound()
            assert os.fstat(output.file.fileno()).st_size <= TAIL
        assert output.text.endswith('xx2\n')


def test_a_short_text_stays():
    with CommandOutput() as output:
        os.write(output.file.fileno(), b'x' * LONGEST)
        output.bound()
        assert os.fstat(output.file.fileno()).st_size == LONGEST
