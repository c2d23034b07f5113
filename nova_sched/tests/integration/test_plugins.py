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
"""Rules of another package: installed next to the scheduler, enabled by name, at work, and
reloaded."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nova_sched import errors, objects
from nova_sched.rpc import client
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.functional.harness import at_once, compute_node, spec

SOURCE = Path(__file__).resolve().parents[1] / 'plugin_package'
PAGE = SOURCE.parents[2] / 'doc' / 'source' / 'write-a-filter.rst'
OFFLINE = ['--no-deps', '--no-index', '--no-build-isolation']
WRITTEN_FOR_NOVA = 'acme_rules.written_for_nova'
WHY = '9000 MiB of memory asked, the most that a host takes is 8192'
DECIDES, KEPT_OUT = 'Deciding by ', 'The configuration is not reloaded: '


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    """The package as pip installs it, in a directory of its own."""
    home = tmp_path_factory.mktemp('acme')
    shutil.copytree(SOURCE, home / 'source')  # a build leaves files in its source
    command = [
        sys.executable,
        '-m',
        'pip',
        'install',
        '--quiet',
        *OFFLINE,
        '--target',
        home / 'site',
    ]
    subprocess.run(
        [*command, home / 'source'], check=True, env={**os.environ, 'PIP_CONFIG_FILE': os.devnull}
    )
    return home / 'site'


@pytest.fixture
def installed(built, monkeypatch):
    """The package is there for every process that the test starts."""
    monkeypatch.setenv('PYTHONPATH', str(built))


def add(cloud, **fields):
    """Hosts `host-0`, `host-1`, …; each field has a value for each of them."""
    report = client.StatsClient(cloud.bus, timeout_s=30).update_resource_stats
    rows = [
        dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)
    ]
    at_once(
        lambda row: report(f'host-{row}', compute_node(f'host-{row}', **rows[row]), instances=[]),
        range(len(rows)),
    )


def boot(cloud, *names, **words):
    """The host of each of these instances, booted one after the other."""
    asked = spec(**words)
    return [
        found[0].service_host
        for name in names
        for found in cloud.scheduler.select_destinations(asked, [uuid_of(name)])
    ]


def reload(daemon, said=DECIDES, is_followed=False, **options):
    """Change the configuration, tell the daemon, and wait until it has said so; with
    ``is_followed``, also until it has built its rules again, as eventlet does after a mistake.

    Eventlet sets its handlers of signals again after a reload, and loses a signal at that
    moment: the daemon is told again.
    """
    before, decided = daemon.said().count(said), daemon.said().count(DECIDES)
    daemon.configure({key.replace('__', '.'): value for key, value in options.items()})
    daemon.send(signal.SIGHUP)
    try:
        daemon.until_it_says(said, before + 1, timeout_s=10.0)
    except ServerFailed:
        daemon.send(signal.SIGHUP)
        daemon.until_it_says(said, before + 1)
    if is_followed:
        daemon.until_it_says(DECIDES, decided + 1)


def test_rules_written_for_nova_are_named_as_in_nova_conf(installed, cloud):
    cloud.daemon(
        filter_scheduler__available_filters='nova.scheduler.filters.all_filters\n'
        f'available_filters = {WRITTEN_FOR_NOVA}.KeepFreeFilter',
        filter_scheduler__enabled_filters='ComputeFilter,KeepFreeFilter',
        filter_scheduler__weight_classes=f'{WRITTEN_FOR_NOVA}.SmallHostWeigher',
        filter_scheduler__keep_free_mb=2048,
    )
    add(cloud, vcpus=[64, 16, 32], memory_mb=[65536, 4096, 8192])
    assert boot(cloud, 'one', 'two', memory_mb=1024) == ['host-1', 'host-1']
    assert boot(cloud, 'three', memory_mb=1024) == ['host-2']
    hint = {'use_reserve': ['true']}
    assert boot(cloud, 'four', memory_mb=1024, scheduler_hints=hint) == ['host-1']


def test_rules_over_columns_are_named_by_their_entry_points(installed, cloud):
    daemon = cloud.daemon(
        filter_scheduler__enabled_filters='ComputeFilter,SizeLimitFilter',
        filter_scheduler__weight_classes='QuietWeigher',
        filter_scheduler__largest_instance_mb=8192,
    )
    add(cloud, vcpus=[8, 8])
    small = objects.Aggregate(id=1, uuid=uuid_of('small'), name='small', hosts=['host-0'])
    small.metadata = {'largest_instance_mb': '1024'}
    # Called, not cast as Nova does: the next call must not overtake it.
    cloud.scheduler.call(None, 'update_aggregates', aggregates=[small])
    assert boot(cloud, 'one', 'two', memory_mb=2048) == ['host-1', 'host-1']
    assert boot(cloud, 'three', memory_mb=1024) == ['host-0']
    told = 'SizeLimitFilter removed the last hosts: they take no server with that much memory.'
    with pytest.raises(errors.NoValidHost, match=told):
        boot(cloud, 'four', memory_mb=9000)
    daemon.until_it_says(f'none after SizeLimitFilter: {WHY}')


BACKENDS = pytest.mark.parametrize(
    'backend', ['threading', pytest.param('eventlet', marks=ONLY_THOROUGH)]
)


@BACKENDS
def test_options_rules_and_packages_are_taken_up_while_the_daemon_runs(
    built, cloud, tmp_path, monkeypatch, backend
):
    site = tmp_path / 'site'
    site.mkdir()
    monkeypatch.setenv('PYTHONPATH', str(site))
    daemon = cloud.daemon(
        DEFAULT__service_backend=backend,
        filter_scheduler__enabled_filters='ComputeFilter',
        filter_scheduler__weight_classes='RAMWeigher',
    )
    add(cloud, memory_mb=[65536, 32768])
    assert boot(cloud, 'one') == ['host-0']
    shutil.copytree(built, site, dirs_exist_ok=True)
    reload(daemon, filter_scheduler__weight_classes='QuietWeigher')
    assert boot(cloud, 'two') == ['host-1']
    reload(daemon, filter_scheduler__quiet_weight_multiplier=-1.0)
    assert boot(cloud, 'three', 'four', 'five')[1:] == boot(cloud, 'six', 'seven')
    reload(
        daemon,
        filter_scheduler__enabled_filters='ComputeFilter,SizeLimitFilter',
        filter_scheduler__largest_instance_mb=1024,
    )
    with pytest.raises(errors.NoValidHost, match='SizeLimitFilter'):
        boot(cloud, 'eight', memory_mb=1025)
    reload(daemon, filter_scheduler__largest_instance_mb=0)
    assert len(boot(cloud, 'eight', memory_mb=1025)) == 1


MISTAKES = {
    'enabled_filters': ('ComputeFilter,MagicFilter', 'no filter is named MagicFilter'),
    'weight_classes': ('acme_rules.quiet.LoudWeigher', 'LoudWeigher cannot be loaded'),
    'largest_instance_mb': ('much', 'largest_instance_mb'),
}


@BACKENDS
def test_a_mistake_changes_nothing(installed, cloud, backend):
    sound = {
        'enabled_filters': 'ComputeFilter,SizeLimitFilter',
        'weight_classes': 'QuietWeigher',
        'largest_instance_mb': '1024',
    }
    section = 'filter_scheduler__'
    daemon = cloud.daemon(
        DEFAULT__service_backend=backend,
        **{section + name: value for name, value in sound.items()},
    )
    add(cloud, vcpus=[8, 8])
    for name, (value, words) in MISTAKES.items():
        # What else the file says is not taken over either.
        changed = {'quiet_weight_multiplier': '-1.0', name: value}
        reload(
            daemon,
            KEPT_OUT,
            backend == 'eventlet',
            **{section + key: text for key, text in changed.items()},
        )
        assert words in daemon.said().rpartition(KEPT_OUT)[2].splitlines()[0]
        daemon.configure({f'filter_scheduler.{key}': text for key, text in sound.items()})
    first, second = boot(cloud, 'one', 'two', memory_mb=1024)
    assert first != second
    with pytest.raises(errors.NoValidHost, match='SizeLimitFilter'):
        boot(cloud, 'three', memory_mb=2048)


# The page that takes a newcomer there: its files are those of the package, by reference.


def plain(line):
    """The words of a line: how wide a column of a table is, is not told."""
    return ' '.join(line.split())


def commands():
    """Each command of the page's consoles, and a pattern of what it prints.

    There `...` stands for anything, and alone on a line for any number of lines.
    """
    found = []
    for block in re.findall(r'code-block:: console\n\n((?: {4}.*\n|\n)+)', PAGE.read_text()):
        for line in block.strip('\n').splitlines():
            text = plain(line)
            if text.startswith('$ '):
                found.append((text[2:], []))
            else:
                found[-1][1].append('(?:.*\n)*?' if text == '...' else f'{re.escape(text)}\n')
    return [(command, ''.join(lines).replace(re.escape('...'), '.*')) for command, lines in found]


def test_the_commands_of_the_page(tmp_path):
    source = shutil.copytree(SOURCE, tmp_path / 'acme-rules')
    environment = {
        # What is said to pytest is for these tests, not for those of the page.
        **{name: said for name, said in os.environ.items() if not name.startswith('PYTEST_')},
        'PATH': f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}',
        'PYTHONPATH': str(tmp_path / 'site'),
        'PIP_TARGET': str(tmp_path / 'site'),
        'PIP_CONFIG_FILE': os.devnull,
        'PIP_NO_BUILD_ISOLATION': '0',  # whatever it says, this is how pip takes it
        'PIP_NO_DEPS': '1',
        'PIP_NO_INDEX': '1',
    }
    given = commands()
    assert len(given) == 4
    for command, pattern in given:
        done = subprocess.run(
            command.split(),
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        printed = ''.join(f'{plain(line)}\n' for line in done.stdout.splitlines())
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(pattern, printed), f'{command}:\n{printed}\n{done.stderr}'


def test_the_page_has_every_file_of_the_package():
    shown = re.findall(r'literalinclude:: \S*plugin_package/(\S+)', PAGE.read_text())
    files = [
        path for kind in ('cfg', 'conf', 'py', 'toml') for path in SOURCE.rglob(f'[!_]*.{kind}')
    ]
    assert sorted(shown) == sorted(str(path.relative_to(SOURCE)) for path in files)
