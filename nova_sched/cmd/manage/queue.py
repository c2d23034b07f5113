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
"""`queue`: the queues on the broker, and their waiting jobs."""

from nova_sched.cmd.manage import arguments, asking, output

PAGE = 500  # queues in one answer: a manager asks the broker for each


def list_queues(args, conf):
    """List queues: those of fallback and of results, then those of flavors

    Calls a running manager of queues, over the bus; queues of hosts are not included. In a full
    cloud a queue has jobs and no workers.

    Keys: name (the flavor, and behind a + the special thing), queue (its name
    on the broker), ready (jobs that wait), consumers (workers that take from it; of the first two,
    managers). These are null if the broker does not have the queue.
    """
    found = asking.ask(args, conf, 'QueuesClient', everything)
    if args.waiting:
        found = [row for row in found if row['ready']]
    output.show(args, found, COLUMNS)
    return 0


def everything(manager):
    """All queues, page by page."""
    found = more = manager.facts(None, PAGE)
    while len(more) == PAGE:
        more = manager.facts(more[-1]['queue'], PAGE)
        found = found + more
    return found


COLUMNS = {
    'Queue': lambda row: row['name'],
    'On the broker': lambda row: row['queue'],
    'Waiting': lambda row: _count(row['ready']),
    'Workers': lambda row: _count(row['consumers']),
}


def _count(number):
    return '-' if number is None else number


def _list_arguments(parser):
    parser.add_argument('--waiting', action='store_true', help='only queues where jobs wait')
    arguments.add_timeout(parser)


VERBS = (('list', list_queues, _list_arguments),)
