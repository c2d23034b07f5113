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
"""Nova's own client, objects and rules compared with ours, in a separate environment: ``tox -e
nova-client``.

What speaks over the bus is Nova's side alone: the daemon runs elsewhere. test_differential.py has
both in one process, to hold rule against rule.
"""

import importlib

from nova import monkey_patch
from oslo_config import cfg

# As nova-conductor does, and like there before anything else: native threads.
monkey_patch.patch(backend='threading')


def _options_apart():
    """Import Nova's options, then ours, each on an object of its own.

    Many have the same name, and oslo.config's global object takes one option of a name.
    """
    importlib.import_module('nova.conf')
    theirs, cfg.CONF = cfg.CONF, cfg.ConfigOpts()
    try:
        importlib.import_module('nova_sched.conf')
    finally:
        cfg.CONF = theirs


_options_apart()
