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

"""The page Schedulers: the processes, their figures, and the result of the last audit."""

import flask

from nova_sched.claims.audit import audit
from nova_sched.cmd.manage import scheduler
from nova_sched.engine.figures import COUNTS
from nova_sched.engine.sync.membership import KEPT_S

ENDPOINT, TITLE, RULE = 'schedulers', 'Schedulers', 'dashboard:schedulers'


def add(app, parts):
    pages = SchedulerPages(parts)
    app.add_url_rule('/schedulers', ENDPOINT, pages.show)
    app.add_url_rule('/schedulers/audit', 'audit', pages.audit, methods=['POST'])


class SchedulerPages:
    """``_last`` is what the last audit from this process has found."""

    def __init__(self, parts):
        self._parts, self._last = parts, None

    def show(self):
        self._parts.demand(RULE)
        schedulers = self._parts.sources.schedulers
        now_s = schedulers.now_s()
        rows = [row(facts, now_s) for facts in schedulers.alive(now_s - KEPT_S)]
        sums = {name: sum(shown[name] for shown in rows) for name in COUNTS}
        part = (
            'scheduler_rows.html' if 'HX-Request' in flask.request.headers else 'schedulers.html'
        )
        return flask.render_template(part, rows=rows, sums=sums, now_s=now_s, last=self._last)

    def audit(self):
        """Compare claims and recorded usage as of one moment, as `claim audit` does."""
        self._parts.demand('dashboard:audit')
        maintenance = self._parts.sources.maintenance
        snapshot, now_s = maintenance.snapshot(), maintenance.now_s()
        findings = sorted(audit(snapshot, now_s), key=lambda finding: not finding.is_error)
        self._last = {
            'time_s': now_s,
            'nodes': len(snapshot.nodes),
            'claims': len(snapshot.claims),
            'groups': len(snapshot.policies),
            'errors': sum(finding.is_error for finding in findings),
            'findings': findings,
        }
        return flask.render_template('audit.html', last=self._last)


def row(facts, now_s):
    """A process with its figures, as `scheduler list` has them, for the page."""
    return {
        **scheduler.row(facts, now_s),
        'started_s': facts.started_s,
        'release': facts.figures.get('release'),
    }
