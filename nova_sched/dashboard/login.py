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

"""Logging in and out."""

import uuid

import flask
from werkzeug import exceptions

from nova_sched.dashboard import security


def add(app, guard, ended):
    """``guard`` is an Authenticator, ``ended`` an EndedSessions."""

    def login():
        return _page(guard)

    def log_in():
        request = flask.request
        try:
            token = guard.log_in(request.form)
        except exceptions.Unauthorized as error:
            return _page(guard, error.description), 403
        there = security.local_path(request.form.get('next'))
        end()  # a copy of its cookie, which nobody could log out any more; and its form token
        name = request.form['user'].strip()
        project = request.form.get('project', '').strip()
        flask.session.update(
            uuid=str(uuid.uuid4()),
            token=token,
            name=f'{name} in {project}' if project else name,
        )
        return flask.redirect(there or flask.url_for('home'), 303)

    def end():
        if 'uuid' in flask.session:
            ended.add(flask.session['uuid'])
            guard.log_out(flask.session['token'])
        flask.session.clear()

    def log_out():
        end()
        return flask.redirect(flask.url_for('login'), 303)

    app.add_url_rule('/login', 'login', login, methods=['GET'])
    app.add_url_rule('/login', 'log_in', log_in, methods=['POST'])
    app.add_url_rule('/logout', 'log_out', log_out, methods=['POST'])


def _page(guard, problem=None):
    there = security.local_path(flask.request.values.get('next')) or ''
    return flask.render_template('login.html', is_open=guard.is_open, problem=problem, next=there)
