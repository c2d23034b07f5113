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
"""The floor of a call: an RPC server that answers every request with the same three Selections."""

import json
import pathlib
import sys


def main(url, exchange, topic):
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    import oslo_messaging as messaging
    from oslo_config import cfg

    answer = json.loads(pathlib.Path(__file__).with_name('answer.json').read_text())

    class Echo:
        target = messaging.Target(version='4.5')

        def select_destinations(self, context, **kwargs):
            return answer

    cfg.CONF([], default_config_files=[])
    bus = messaging.get_rpc_transport(cfg.CONF, url=url)
    target = messaging.Target(exchange=exchange, topic=topic, server='echo')
    server = messaging.get_rpc_server(bus, target, [Echo()], executor='threading')
    server.start()
    print('ready', flush=True)
    sys.stdin.read()
    server.stop()
    server.wait()


if __name__ == '__main__':
    main(*sys.argv[1:])
