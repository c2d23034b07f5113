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
"""The demonstration, whole, without RabbitMQ."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET


def test_the_demonstration_ends_with_a_report(tmp_path):
    report, picture = tmp_path / 'report.html', tmp_path / 'plots.svg'
    words = ['--embedded', '--report', str(report), '--picture', str(picture)]
    found = subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_sched.tests.demo', *words],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    race = re.search(r'took (\d+) of the last (\d+) places', found.stdout)
    assert race
    assert race[1] == race[2]
    assert re.search(r'Refusal: .*ImagePropertiesFilter \d+ → 0$', found.stdout, re.MULTILINE)
    assert '── site/web/servers/0  planned' in found.stdout
    assert re.search(r'Audit: .* 0 errors, nothing is allocated twice', found.stdout)
    assert found.stdout.splitlines()[-1] == f'Report: {report}'
    assert 'took' in ''.join(ET.fromstring(report.read_text().partition('\n')[2]).itertext())
    assert ET.fromstring(picture.read_text()).tag.endswith('svg')
