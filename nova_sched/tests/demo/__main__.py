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
"""The demonstration, step by step; each prints one line with its figures."""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

DESCRIPTION = """
Several schedulers on a private RabbitMQ (where one is installed, else in this process) place the
servers of a real trace on simulated compute nodes, and race for the last places while one of them
is killed. A refusal is explained, a nested group is planned, and jobs run through queues. In the
end the claims are audited, and a report is written.
"""


def main():
    parser = argparse.ArgumentParser(prog='tools/demo', description=DESCRIPTION)
    parser.add_argument(
        '--report',
        type=Path,
        default=Path('demo-report.html'),
        metavar='FILE',
        help='where to write the report (%(default)s)',
    )
    parser.add_argument('--picture', type=Path, metavar='FILE', help='also its plots, as SVG')
    parser.add_argument(
        '--embedded', action='store_true', help='start no RabbitMQ, even if one is installed'
    )
    options = parser.parse_args()
    from nova_sched.cmd import backend

    backend.choose([])  # before anything else is imported
    from nova_sched.tests.demo import page
    from nova_sched.tests.demo.steps import Demonstration

    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='nova-sched-demo-')))
        result, ok = Demonstration(home, options.embedded, stack).run()
    options.report.write_text(page.page(result))
    if options.picture:
        options.picture.write_text(page.picture(result))
    print(f'Report: {options.report.resolve()}')
    return 0 if ok else 3


if __name__ == '__main__':
    sys.exit(main())
