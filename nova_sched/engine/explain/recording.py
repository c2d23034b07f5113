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
"""Passes records of decisions on: to the decision log, and to the notifications of refusals."""

from nova_sched.engine.explain.decision_log import REFUSED, record


def pass_on(context, settings, order, outcome, details):
    """Pass on the record of an order. ``details()`` returns what it has of the outcome; it is
    called later, in another thread, and may use only what does not change any more.

    The log keeps only records with a request id, by which they are queried.
    """
    now_s = context.clock()

    def make():
        return record(order, outcome, now_s, details())

    if settings.explain_retention_s and order.request_id:
        context.decision_log.keep(make)
    if outcome == REFUSED and context.events is not None:
        context.events.refused(order.context, make)
