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
"""`explain`: why a request was refused or placed where it is, and the outcome of a possible
request."""

from nova_sched import errors
from nova_sched.cmd.manage import accounts, asking, specs, store, tables
from nova_sched.db.decision_log import SqlDecisionLog
from nova_sched.rpc import client

NOUN = 'explain'
HELP = 'explain why a request found no host, or where the next one would go'


def dry_run(args, conf):
    """Decide a request on a running scheduler without claiming anything

    The request is built from the options, or read from a file with --spec. NUMA cells and PCI
    devices are computed by Nova's API: only a spec from a file has them.

    The tables show for each filter how many hosts it saw and left, and why it removed hosts. For
    the chosen host and its alternates they show the weight by each weigher.

    Keys with --format json: outcome (placed or refused), reason, hosts, instances, found, filters
    (filter, seen, left, why, removed, nearest, nearest_why), placed (instance_uuid, host, node,
    weight, weights (weigher, raw, normalised, multiplier, weight), alternates (the same)).
    """
    spec = specs.spec(args)
    found = _ask(args, conf, lambda scheduler: scheduler.dry_run(spec))
    _show(args, found, accounts.decision)
    return 0


def why_not(args, conf):
    """Show the verdict of each rule of a running scheduler on one host

    Every rule is evaluated, even after one that refuses. A host that passes all of them is
    compared with the best one.

    Keys with --format json: host, service (disabled, disabled_reason, forced_down, seen_s), nodes
    (node, passes, rules (rule, verdict: passes, refuses, not asked or fails, why); and of a node
    that passes: rank, of, weight, weights, best (host, node, weight, weights)).
    """
    spec = specs.spec(args)
    found = _ask(args, conf, lambda scheduler: scheduler.why_not(spec, args.host))
    _show(args, found, accounts.host)
    return 0


def capacity(args, conf):
    """Show how many more servers like this one fit, from a running scheduler

    Counted as if they came one after the other and nothing else changed. A host in several zones
    or aggregates counts in each. Rules that evaluate each host separately, such as plug-ins that
    were written for Nova, are evaluated for the first server only.

    Keys with --format json: total, at_least (true if the count was stopped by its time limit),
    hosts, zones (name to number), aggregates (id, name, total).
    """
    spec = specs.spec(args)
    found = _ask(args, conf, lambda scheduler: scheduler.capacity(spec))
    _show(args, found, accounts.capacity)
    return 0


def show(args, conf):
    """Show the outcome of a request, and the reasons

    Read from the database. It keeps refusals for [explain] retention seconds, and of the other
    decisions the share [explain] sample. The request id is in each line of the log, and in the
    answer of Nova's API as X-Openstack-Request-Id.

    Keys with --format json: of each decision about the request request_id, time, asked (instances,
    flavor, resources, extra_specs, image, zone, policy, project_id, user_id), and those of
    'explain dry-run'.
    """
    records = SqlDecisionLog(store.ready(conf)).read(args.request_id)
    if not records:
        raise errors.NotFound(f'A decision about request {args.request_id}')
    for one in records:
        one['time'] = tables.moment(one['time'])
    _show(args, records, accounts.decisions)
    return 0


def _ask(args, conf, question):
    return asking.ask(args, conf, client.ExplainClient, question)


def _show(args, found, page):
    tables.show(tables.as_json(found) if args.format == 'json' else page(found))


# The command line.


def _ask_arguments(parser):
    specs.add_arguments(parser)
    asking.add_timeout(parser)


def _host_arguments(parser):
    parser.add_argument('host', metavar='HOST', help='name of the host')
    _ask_arguments(parser)


def _show_arguments(parser):
    parser.add_argument('request_id', metavar='REQUEST', help='the request id, req-…')


VERBS = (
    ('dry-run', dry_run, _ask_arguments),
    ('why-not', why_not, _host_arguments),
    ('capacity', capacity, _ask_arguments),
    ('show', show, _show_arguments),
)
