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
"""The real Heat engine in this process, over a bus in memory and a database in a file."""

import time
import types
from pathlib import Path

from oslo_service import backend

backend.init_backend(
    backend.BackendType.THREADING
)  # before anything of Heat is imported, as heat-engine does

from heat.common import config, context, exception, messaging  # noqa: E402, F401
from heat.db import api as db_api  # noqa: E402
from heat.db import models  # noqa: E402
from heat.engine import resources, scheduler, service, stack  # noqa: E402
from heat.rpc import api as rpc_api  # noqa: E402
from heat.rpc import client as rpc_client  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log as logging  # noqa: E402
from oslo_messaging._drivers import impl_fake  # noqa: E402
from sqlalchemy import event  # noqa: E402

from nova_sched.tests.heat_engine.cloud import TOKEN  # noqa: E402

PLUGINS = Path(__file__).resolve().parents[2] / 'extensions' / 'heat'
FAKE_KEYSTONE = 'heat.engine.clients.os.keystone.fake_keystoneclient.FakeKeystoneClient'
TIMEOUT_S = 120
TICK_S = 0.01  # where Heat waits a second before it looks again, and the bus in memory a twentieth


def configure(home):
    """Heat's configuration, as a heat.conf would give it; the plug-in is loaded from its
    folder."""
    logging.register_options(cfg.CONF)
    conf, nothing = home / 'heat.conf', home / 'nothing'
    nothing.mkdir()
    conf.write_text(
        '[DEFAULT]\n'
        f'plugin_dirs = {PLUGINS}\n'
        f'environment_dir = {nothing}\n'
        f'template_dir = {nothing}\n'
        f'keystone_backend = {FAKE_KEYSTONE}\n'
        'deferred_auth_method = password\n'
        'auth_encryption_key = 0123456789abcdef0123456789abcdef\n'
        'action_retry_limit = 0\n'
        'client_retry_limit = 0\n'
        'executor_thread_pool_size = 8\n'
        '[database]\n'
        f'connection = sqlite:///{home / "heat.sqlite"}?timeout=30\n'
        'sqlite_synchronous = false\n'
    )
    for module in (scheduler, stack, impl_fake):
        module.time = types.SimpleNamespace(
            time=time.time, sleep=lambda seconds: time.sleep(min(seconds, TICK_S))
        )
    cfg.CONF(['--config-file', str(conf)], project='heat', default_config_dirs=[])


class Engine:
    """A running engine, asked as heat-api asks it."""

    def __init__(self, cloud):
        self._cloud = cloud
        messaging.setup('fake://')
        database = db_api.get_engine()
        event.listen(database, 'before_cursor_execute', _locking, retval=True)
        models.BASE.metadata.create_all(database)
        self._service = service.EngineService('engine-under-test', rpc_api.ENGINE_TOPIC)
        self._service.start()
        self._client = rpc_client.EngineClient()

    def stop(self):
        self._service.stop()
        messaging.cleanup()

    def context(self):
        """The context of one request to Heat's API."""
        return context.RequestContext(
            user_id='demo-user',
            username='demo',
            project_id='demo-project',
            project_name='demo',
            password='secret',
            auth_token=TOKEN,
            auth_token_info=self._cloud.catalog(),
            auth_url=f'{self._cloud.url}/identity/v3',
            region_name='here',
            roles=['member'],
            is_admin=False,
        )

    def create(self, name, template, parameters=None, files=None, environment=None, **arguments):
        """The stack, when it is done, whatever came of it."""
        identity = self._client.create_stack(
            self.context(),
            name,
            template,
            _environment(parameters, environment),
            files or {},
            arguments,
        )
        return self.wait(identity)

    def update(
        self, identity, template, parameters=None, files=None, environment=None, **arguments
    ):
        self._client.update_stack(
            self.context(),
            identity,
            template,
            _environment(parameters, environment),
            files or {},
            arguments,
        )
        return self.wait(identity)

    def delete(self, identity):
        self._client.delete_stack(self.context(), identity, cast=False)
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until:
            try:
                stack = self.show(identity)
            except Exception as error:
                if 'NotFound' in type(error).__name__:
                    return
                raise
            if (stack['stack_action'], stack['stack_status']) == ('DELETE', 'COMPLETE'):
                return
            assert stack['stack_status'] != 'FAILED', stack['stack_status_reason']
            time.sleep(0.05)
        raise AssertionError('the stack is not gone')

    def wait(self, identity):
        until = time.monotonic() + TIMEOUT_S
        while (stack := self.show(identity))['stack_status'] == 'IN_PROGRESS':
            assert time.monotonic() < until, stack
            time.sleep(0.05)
        return stack

    def show(self, identity):
        return self._client.show_stack(self.context(), identity)[0]

    def resource(self, identity, name):
        """One resource with its moves."""
        return self._client.describe_stack_resource(
            self.context(), identity, name, with_attr=['moves']
        )

    def resources(self, identity, depth=0):
        return self._client.list_stack_resources(self.context(), identity, nested_depth=depth)

    def signal(self, identity, name):
        """Signal a resource, such as a scaling policy, and wait until the whole is at rest."""
        self._client.resource_signal(self.context(), identity, name, None, sync_call=True)

    def check(self, identity):
        """Have each resource look whether it still is what it was."""
        self._client.stack_check(self.context(), identity)
        until = time.monotonic() + TIMEOUT_S
        while (stack := self.show(identity))['stack_action'] != 'CHECK':
            assert time.monotonic() < until, stack
            time.sleep(TICK_S)
        return self.wait(identity)

    def validate(self, template):
        return self._client.validate_template(self.context(), template)

    def types(self):
        return {
            one if isinstance(one, str) else one['resource_type']
            for one in self._client.list_resource_types(self.context())
        }


def _locking(_connection, _cursor, statement, parameters, _context, _many):
    """Let transactions in SQLite wait for each other at their begin: a reader cannot become a
    writer."""
    return 'BEGIN IMMEDIATE' if statement == 'BEGIN' else statement, parameters


def _environment(parameters, environment):
    return {**(environment or {}), 'parameters': parameters or {}}


def initialise():
    """Load all resource types, the plug-in's among them, as the engine does when it starts."""
    resources.initialise()
    return resources.global_env()
