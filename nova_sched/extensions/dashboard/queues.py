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

"""The page Queues: flavors that are queues, their depth, and the ways of jobs."""

import flask

from nova_sched import errors
from nova_sched.extensions.dashboard.parts import answer
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.rest import QueueHandlers

ENDPOINT, TITLE, RULE = 'queues', 'Queues', 'flavors:list'
QUEUES, JOBS, ALL_JOBS = 'queues:list', 'dashboard:jobs', 'dashboard:jobs:all_projects'
MAX_JOBS = 100  # on the page
UNKNOWN = 'No manager of queues answers.'


def add(app, parts):
    pages = QueuePages(parts)
    app.add_url_rule('/queues', ENDPOINT, pages.show)
    app.add_url_rule('/queues/job/<uuid:uuid>', 'job', pages.job)


class QueuePages:
    def __init__(self, parts):
        self._parts = parts
        self._handlers = QueueHandlers(
            parts.clients.queues, parts.policy, parts.conf.api.max_limit
        )

    def show(self):
        problem, flavors, queues = '', [], []
        try:
            flavors = answer(self._handlers.list_flavors)['flavors']
            if self._parts.may(QUEUES):
                queues = answer(self._handlers.list_queues)['queues']
        except errors.NoAnswer:
            problem = UNKNOWN
        most = max([queue['ready'] or 0 for queue in queues], default=0)
        jobs = self._jobs()
        template = 'queue_rows.html' if 'HX-Request' in flask.request.headers else 'queues.html'
        return flask.render_template(
            template,
            flavors=flavors,
            queues=queues,
            most=most,
            problem=problem,
            jobs=jobs,
            now_s=jobs and self._parts.sources.jobs.now_s(),
        )

    def job(self, uuid):
        """One job: its attempts, and where it ended."""
        self._parts.demand(JOBS)
        job = self._parts.sources.jobs.find(str(uuid))
        is_operator = self._parts.may(ALL_JOBS)
        own_project = flask.g.context.project_id
        if job is None or not (is_operator or job.project_id == own_project is not None):
            raise errors.JobNotFound(str(uuid))
        failed = messages.failures(job.failures) if is_operator else []
        return flask.render_template('job.html', job=job, failures=failed, is_operator=is_operator)

    def _jobs(self):
        """The newest jobs that the caller may see."""
        if not self._parts.may(JOBS):
            return []
        if self._parts.may(ALL_JOBS):
            return self._parts.sources.jobs.newest(MAX_JOBS)
        # To the table, no project is every project.
        project_id = flask.g.context.project_id
        return self._parts.sources.jobs.newest(MAX_JOBS, project_id) if project_id else []
