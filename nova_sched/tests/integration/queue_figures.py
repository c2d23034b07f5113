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
"""What happened in a crowd of queues: as the job table, the callers, RabbitMQ and the logs tell
it."""

import collections
import re
import statistics

from nova_sched.tests.integration import audit

OURS = re.compile(r'nova_sched\.(?!reply\.)')  # neither of the bus nor of answers
NUMBER = re.compile(r'[0-9a-f]{8}-[0-9a-f-]{27}|\d+')
# Figure: where it is logged, and how a worker or a manager says it, once for each.
SAID = {
    'put back by nodes': ('workers-*.log', 'is not for this node'),
    'builds that failed': ('workers-*.log', 'was told to fail'),
    'cut off builds, kept': ('workers-*.log', 'was built before the end of the last process'),
    'cut off builds, undone': (
        'workers-*.log',
        'was not built before the end of the last process',
    ),
    'taken over meanwhile': ('workers-*.log', 'another worker has taken over'),
    'decided in fallback': ('manager-*/log', 'as the scheduler decided'),
    'lost messages': ('manager-*/log', 'was lost'),
}


class Rabbit:
    """What RabbitMQ counts in the queues of one virtual host."""

    def __init__(self, broker, url):
        self._broker, self._host = broker, url.rpartition('/')[2]
        self._before = collections.Counter()

    def waiting(self):
        """queue -> its messages, in the hands of consumers or not."""
        return {one['name']: one.get('messages', 0) for one in self._queues()}

    def restart(self):
        """In good order. RabbitMQ forgets by that what it has counted, so it is kept here."""
        self._before = self.counts()
        self._broker.restart()

    def counts(self):
        """What happened to messages, of all restarts together."""
        found = collections.Counter(self._before)
        for one in self._queues():
            events = one.get('message_stats', {})
            found['delivered'] += events.get('deliver', 0)
            found['redelivered'] += events.get('redeliver', 0)
            # What expires into a queue is not counted as published there.
            found['taken from fallback'] += events.get('ack', 0) * one['name'].endswith(
                '.fallback'
            )
        return found

    def _queues(self):
        return [
            one
            for one in self._broker.ask('GET', f'queues/{self._host}')
            if OURS.match(one['name'])
        ]


def of_jobs(database, took_s):
    """What the job table has."""
    (jobs,) = audit.rows(database, 'jobs')
    kinds = collections.Counter((job['kind'], job['state']) for job in jobs)
    creates = [job for job in jobs if job['kind'] == 'create']
    return {
        'jobs': f'{len(jobs)}, {len(jobs) / took_s:.0f} a second',
        'of them': ', '.join(
            f'{count} {kind} {state}' for (kind, state), count in sorted(kinds.items())
        ),
        'creates by': dict(
            collections.Counter('queue' if job['queue'] else 'scheduler' for job in creates)
        ),
        'tries': dict(sorted(collections.Counter(job['tries'] for job in jobs).items())),
        'why': _reasons(f'{job["kind"]}: {job["why"]}' for job in jobs if job['why']),
    }


def of_answers(answers):
    """What callers were told."""
    deleted = [
        told['seconds'][-1] for told in answers if told['deleted'] and len(told['seconds']) > 1
    ]
    return {
        'servers at the end': sum(
            bool(told['created']) and not told['deleted'] for told in answers
        ),
        'refused': _reasons(told['error'] for told in answers if told['error']),
        'seconds of a create': _spread(
            [told['seconds'][0] for told in answers if told['created']]
        ),
        'seconds of a delete': _spread(deleted),
    }


def of_logs(home):
    """How often something was said there; see SAID."""
    return {
        figure: sum(path.read_text().count(words) for path in home.glob(logs))
        for figure, (logs, words) in SAID.items()
    }


def _reasons(texts):
    """How often each, whatever the numbers in it; those that are said most."""
    return dict(collections.Counter(NUMBER.sub('N', text) for text in texts).most_common(12))


def _spread(values):
    if len(values) < 2:
        return values
    cuts = statistics.quantiles(values, n=100)
    return f'half {cuts[49]:.2f}, 95% {cuts[94]:.2f}, 99% {cuts[98]:.2f}, all {max(values):.2f}'
