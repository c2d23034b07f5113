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
"""What is wrong after a crowd of queues: by plain SQL, by the nodes' own lists, by what callers
were told.

Who settles a job twice changes nothing that could be seen afterwards: so the database itself notes
each change of a job's state, see ``keep_settled``.
"""

import collections
import json

import sqlalchemy as sa

from nova_sched.tests.integration import audit

CHANGED = 'OLD.state <> NEW.state'
INSERT = 'INSERT INTO settled_jobs VALUES (NEW.uuid, OLD.state, NEW.state);'
NOTE = f'IF {CHANGED} THEN {INSERT} END IF'
ON_UPDATE = 'CREATE TRIGGER keep_settled AFTER UPDATE ON jobs'
TRIGGERS = {
    'postgresql': [
        (
            f'CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {NOTE}; '
            'RETURN NULL; END $$'
        ),
        f'{ON_UPDATE} FOR EACH ROW EXECUTE FUNCTION keep()',
    ],
    'mysql': [f'{ON_UPDATE} FOR EACH ROW {NOTE}'],
    'sqlite': [f'{ON_UPDATE} WHEN {CHANGED} BEGIN {INSERT} END'],
}
TABLES = 'jobs', 'settled_jobs', 'claims', 'nodes', 'quota_usage', 'quota_holds'


def keep_settled(database):
    """Have the database write each change of a job's state into a table of its own,
    ``settled_jobs``."""
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as session:
        names = 'uuid VARCHAR(36), before_state VARCHAR(16), after_state VARCHAR(16)'
        session.execute(sa.text(f'CREATE TABLE settled_jobs ({names})'))
        for statement in TRIGGERS[engine.dialect.name]:
            session.execute(sa.text(statement))


def unrest(database):
    """How many jobs are under way, and claims that are not confirmed."""
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.connect() as session:
        jobs = session.scalar(sa.text("SELECT COUNT(*) FROM jobs WHERE state = 'queued'"))
        claims = session.scalar(sa.text("SELECT COUNT(*) FROM claims WHERE state <> 'confirmed'"))
    return jobs, claims


def faults(database, lists, answers, waiting):
    """What is wrong, by what it is about.

    ``lists`` is host -> {instance: hidden}, ``answers`` what callers were told, ``waiting`` how
    many messages there are in each queue of the broker.
    """
    jobs, settled, claims, nodes, usage, holds = audit.rows(database, *TABLES)
    running = alive(jobs)
    hosts = {node['uuid']: node['host'] for node in nodes}
    places = [
        (claim['consumer_uuid'], hosts[claim['node_uuid']], claim['state']) for claim in claims
    ]
    return {
        'nodes': audit.faults(database),
        'jobs': list(unsettled(jobs, settled)),
        'claims': list(misplaced(running, places)),
        'lists': list(unlisted(places, lists)),
        'quotas': list(uncounted(running, claims, usage, holds)),
        'answers': list(untrue(running, places, answers)),
        'queues': [f'{count} messages wait in {name}' for name, count in waiting.items() if count],
    }


def alive(jobs):
    """instance -> project of the servers that are there: created, and not deleted after that."""
    found, ordered = {}, sorted(jobs, key=lambda job: (job['created_s'], job['kind']))
    for job in ordered:
        done, instance = job['state'] == 'done', job['instance_uuid']
        if job['kind'] == 'create' and done:
            found[instance] = job['project_id']
        if job['kind'] == 'delete' and done and _source(job) is None:
            found.pop(instance, None)
    return found


def _source(job):
    return json.loads(job['message'])['nova_object.data']['source']


def unsettled(jobs, settled):
    """Jobs that have not ended once, from queued to something else."""
    changes = collections.defaultdict(list)
    for row in settled:
        changes[row['uuid']].append((row['before_state'], row['after_state']))
    for job in jobs:
        if changes[job['uuid']] != [('queued', job['state'])]:
            yield (
                f'{job["kind"]} {job["uuid"]} is {job["state"]}; its changes: '
                f'{changes[job["uuid"]]}'
            )
    for uuid in changes.keys() - {job['uuid'] for job in jobs}:
        yield f'job {uuid} was settled, and is not there'


def misplaced(running, places):
    """Servers without one confirmed claim, and claims of what is no server."""
    held = collections.defaultdict(list)
    for instance, host, state in places:
        held[instance].append((host, state))
    for instance in running:
        if [state for _, state in held[instance]] != ['confirmed']:
            yield f'{instance} runs, and its claims are {held[instance]}'
    for instance in held.keys() - running.keys():
        if held[instance]:
            yield f'{instance} does not run, and has claims {held[instance]}'


def unlisted(places, lists):
    """Differences of what the nodes say that is on them, and what is claimed there."""
    claimed = {(instance, host) for instance, host, _ in places}
    there = {
        (instance, host): hidden
        for host, held in lists.items()
        for instance, hidden in held.items()
    }
    for instance, host in claimed - there.keys():
        yield f'{instance} has a claim on {host}, and is not in its list'
    for (instance, host), hidden in there.items():
        if (instance, host) not in claimed:
            yield f'{instance} is in the list of {host} (hidden: {hidden}), and has no claim there'
        elif hidden:
            yield f'{instance} is hidden on {host}'


def uncounted(running, claims, usage, holds):
    """Quotas that are not what the servers of a project take."""
    sizes = collections.defaultdict(collections.Counter)
    for claim in claims:
        resources = json.loads(claim['resources']).items()
        sizes[claim['consumer_uuid']].update(
            {f'class:{name}': amount for name, amount in resources}
        )
    for instance in running:
        sizes[instance]['servers'] = 1
    used = collections.defaultdict(collections.Counter)
    for instance, project in running.items():
        used[project].update(sizes[instance])
    told = {row['project_id']: json.loads(row['used']) for row in usage}
    for project in used.keys() | told.keys():
        if used[project] != told.get(project, {}):
            yield f'{project} has {dict(used[project])}, and {told.get(project)} is counted'
    held = {row['instance_uuid']: (row['project_id'], json.loads(row['amounts'])) for row in holds}
    for instance in running.keys() | held.keys():
        wanted = (running[instance], dict(sizes[instance])) if instance in running else None
        if wanted != held.get(instance):
            yield f'{instance} takes {wanted}, and {held.get(instance)} is held'


def untrue(running, places, answers):
    """Callers that were told something else than what is so."""
    at = collections.defaultdict(list)
    for instance, host, _ in places:
        at[instance].append(host)
    for told in answers:
        is_there = bool(told['created']) and not told['deleted']
        if is_there != (told['uuid'] in running):
            yield f'{told["uuid"]} runs: {told["uuid"] in running}; its caller knows: {told}'
        elif is_there and at[told['uuid']] != [told['created']]:
            yield f'{told["uuid"]} is on {at[told["uuid"]]}; its caller knows: {told}'
    known = {told['uuid'] for told in answers}
    yield from (f'{instance} runs without a request' for instance in running.keys() - known)
