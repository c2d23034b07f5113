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
"""Options of the [shadow] group: a scheduler that watches another one."""

from oslo_config import cfg

GROUP = 'shadow'
OPTS = [
    cfg.IntOpt(
        'queue_length',
        default=1000,
        min=1,
        help='Copies of calls that wait to be decided, at most: in RabbitMQ, and in the process. '
        'Others are dropped and counted. As many decisions wait for what the cloud did.',
    ),
    cfg.FloatOpt(
        'wait',
        default=60.0,
        min=1.0,
        mutable=True,
        help='Seconds until the shadow gives up to find out what the cloud did with a call.',
    ),
    cfg.IntOpt(
        'file_size',
        default=64,
        min=1,
        help='MiB of each file of comparisons, shadow.jsonl in `[DEFAULT] state_path`.',
    ),
    cfg.IntOpt(
        'files',
        default=5,
        min=2,
        help='Files of comparisons that are kept: shadow.jsonl, then shadow.jsonl.1 and so on.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
