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
"""nova-sched-manage in this process, on the bus of the tests."""

from nova_sched.cmd import startup
from nova_sched.cmd.manage import commands
from nova_sched.tests.options import settings


def runner(noun, tmp_path, capsys, database=None):
    """What runs a verb of a noun, as ``run('show', UUID)``; it returns exit status, output,
    errors. ``database`` is the SQLite file, for verbs that read it."""
    file = tmp_path / 'nova_sched.conf'
    file.write_text('')
    options = {'default.transport_url': 'fake://'}
    if database is not None:
        options['database.connection'] = f'sqlite:///{database}'

    def run(*words):
        argv = [noun, *words, '--config-file', str(file)]
        capsys.readouterr()
        with settings(options):
            status = startup.guarded(lambda: commands.run(commands.parser().parse_args(argv)))
        return status, *capsys.readouterr()

    return run
