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
"""The layouts of a cloud, and the configuration files of its services."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from nova_sched.tests.stock_cloud.databases import SCHEDULER, SERVICES, SHADOW, Databases


@dataclass(frozen=True)
class Layout:
    """``database`` is the fixture that runs the server, ``mariadb`` or ``postgresql``.

    With ``is_split`` the top level and the cell have conductors and brokers of their own, and no
    service of the cell reaches the scheduler or the API database. With ``has_templates`` the cell
    mappings hold URL templates. Unless it ``has_casts``, nova-compute tells no scheduler of its
    instances, and does not check the policies of server groups again.
    """

    database: str
    is_split: bool = False
    has_templates: bool = False
    has_casts: bool = True


LAYOUTS = {
    'mariadb-single': Layout('mariadb'),
    'mariadb-split': Layout('mariadb', is_split=True, has_templates=True, has_casts=False),
    'postgresql-single': Layout('postgresql', has_templates=True, has_casts=False),
}


CONTROLLER = 'controller'  # [DEFAULT] host of all that is no compute host
FILTERS = (
    'ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,'
    'ServerGroupAffinityFilter,SameHostFilter,DifferentHostFilter,AggregateInstanceExtraSpecsFilter'
)
PASTE = Path(sys.prefix, 'etc', 'nova', 'api-paste.ini')


def ini(sections: dict[str, dict[str, object]]) -> str:
    """The text of a configuration file."""
    lines = []
    for section, options in sections.items():
        lines += [f'[{section}]', *(f'{name} = {value}' for name, value in options.items())]
    return '\n'.join(lines) + '\n'


class Settings:
    """Writes each service's file into ``home``; ``transports`` are the brokers' URLs by level,
    ``top`` and ``cell``."""

    def __init__(
        self,
        home: Path,
        layout: Layout,
        databases: Databases,
        transports: dict[str, str],
        identity_url: str,
    ):
        self._home, self._layout, self._databases = home, layout, databases
        self._transports, self._identity_url = transports, identity_url
        (home / 'state').mkdir()
        (home / 'policy.yaml').touch()
        shutil.copy(PASTE, home)

    def placement(self) -> Path:
        """The directory of Placement's file, which Placement gives a fixed name."""
        folder = self._home / 'placement'
        folder.mkdir()
        text = ini(
            {
                'DEFAULT': {'log_file': self._home / 'placement.log'},
                'api': {'auth_strategy': 'keystone'},
                'placement_database': {'connection': self._databases.url('placement')},
                'keystone_authtoken': self._authtoken('placement'),
                'oslo_policy': {'policy_file': self._home / 'policy.yaml'},
            }
        )
        (folder / 'placement.conf').write_text(text)
        return folder

    def top(self, name: str) -> Path:
        """Of a service at the top level. In one cell, [database] is cell1's for every service, as
        in Nova's installation guide."""
        return self._nova(name, database='cell0' if self._layout.is_split else 'cell1')

    def scheduler(self, host: str) -> Path:
        """As ``top``, with a Keystone and a database user of the scheduler's own."""
        return self._nova(
            'scheduler' if host == CONTROLLER else host,
            database='cell0' if self._layout.is_split else 'cell1',
            user=SCHEDULER,
            options={'host': host},
        )

    def shadow(self) -> Path:
        """As ``scheduler``, with users that may read only."""
        return self._nova(
            'shadow', database='cell0' if self._layout.is_split else 'cell1', user=SHADOW
        )

    def cell(self, name: str) -> Path:
        """Of a conductor in the cell, which does not reach the top level."""
        return self._nova(name, database='cell1', has_api=False, level='cell')

    def compute(self, host: str, driver: str) -> Path:
        options = {'host': host, 'compute_driver': driver}
        return self._nova(host, None, has_api=False, level='cell', options=options)

    def manage(self, database: str) -> Path:
        """Of nova-manage, which makes the tables of a cell in [database]."""
        return self._nova(f'manage-{database}', database)

    def _nova(
        self,
        name: str,
        database: str | None,
        *,
        has_api: bool = True,
        level: str = 'top',
        user: str = SERVICES,
        options: dict[str, object] | None = None,
    ) -> Path:
        state = self._home / 'state' / name
        state.mkdir(exist_ok=True)
        sections = self._services(user) | self._operation()
        sections['DEFAULT'] |= {
            'transport_url': self._transports[level],
            'host': CONTROLLER,
            'state_path': state,
            'log_file': self._home / f'{name}.log',
            **(options or {}),
        }
        sections['oslo_concurrency'] = {'lock_path': state / 'locks'}
        pool = {'max_pool_size': 5, 'max_overflow': 15}
        if database:
            sections['database'] = {'connection': self._databases.url(database, user), **pool}
        if has_api:
            sections['api_database'] = {'connection': self._databases.url('api', user), **pool}
        path = self._home / f'{name}.conf'
        path.write_text(ini(sections))
        return path

    def _operation(self) -> dict[str, dict[str, object]]:
        """How all services of Nova behave here."""
        has_casts = self._layout.has_casts
        return {
            'DEFAULT': {
                'my_ip': '127.0.0.1',
                'report_interval': 5,
                'service_down_time': 60,
                'scheduler_instance_sync_interval': 20,
                'update_resources_interval': 20,
                'allow_resize_to_same_host': False,
                'initial_disk_allocation_ratio': 1.0,
            },
            'oslo_messaging_notifications': {'driver': 'noop'},
            'oslo_policy': {'policy_file': self._home / 'policy.yaml'},
            'conductor': {'workers': 2},
            'scheduler': {'workers': 1, 'max_attempts': 3},
            'filter_scheduler': {
                'enabled_filters': FILTERS,
                'track_instance_changes': has_casts,
                # The host whose builds fail would be the last choice after its first failure.
                'build_failure_weight_multiplier': 0,
                # Free memory would outweigh a soft policy.
                'soft_affinity_weight_multiplier': 10,
                'soft_anti_affinity_weight_multiplier': 10,
            },
            'quota': dict.fromkeys(
                ('instances', 'cores', 'ram', 'server_groups', 'server_group_members'), -1
            ),
            'vnc': {'enabled': False},
            'wsgi': {'api_paste_config': self._home / PASTE.name},
            'workarounds': {'disable_group_policy_check_upcall': not has_casts},
        }

    def _services(self, user: str) -> dict[str, dict[str, object]]:
        """How they reach other services, as Keystone's ``user``."""
        internal = {'valid_interfaces': 'internal'}
        return {
            'keystone_authtoken': self._authtoken('nova'),
            'service_user': {'send_service_user_token': False, **self._auth('nova')},
            'placement': {**internal, **self._auth(user)},
            'glance': {**internal, 'region_name': 'RegionOne'},
            'neutron': {**internal, **self._auth('nova')},
            'cinder': {
                'catalog_info': 'block-storage:cinder:internalURL',
                'os_region_name': 'RegionOne',
                **self._auth('nova'),
            },
        }

    def _authtoken(self, user: str) -> dict[str, object]:
        return {
            'www_authenticate_uri': self._identity_url,
            'service_token_roles_required': True,
            'memcached_servers': '',
            **self._auth(user),
        }

    def _auth(self, user: str) -> dict[str, object]:
        return {
            'auth_type': 'password',
            'auth_url': f'{self._identity_url}/v3',
            'username': user,
            'password': 'secret',
            'project_name': 'service',
            'user_domain_name': 'Default',
            'project_domain_name': 'Default',
            'region_name': 'RegionOne',
        }
