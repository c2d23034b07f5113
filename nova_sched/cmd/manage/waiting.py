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
"""The next step of a claim as text, and the component that has to do it."""

from nova_sched.objects.claim import PLANNED

SETTLED = 'claims.confirm_claim'
BACK = 'claims.revert_claim'


def waits_for(claim, siblings, place):
    """The event that a claim waits for; None for nothing.

    ``siblings``: all claims of its consumer. ``place``: maps a node UUID to the host, None if it
    is gone.
    """
    if place(claim.node_uuid) is None:
        return 'its node is gone: nova-sched-manage claim audit --fix ends it'
    elsewhere = [other for other in siblings if other.node_uuid != claim.node_uuid]
    if not claim.is_confirmed:
        return _to_come(claim)
    if claim.resizing:
        return f'{SETTLED} makes the new size final, {BACK} brings the old one back'
    if claim.move and elsewhere:
        return _to_settle(claim, _hosts(elsewhere, place))
    leaving = next((other for other in elsewhere if other.move), None)
    if leaving is not None:
        return _to_leave(leaving, _hosts([leaving], place))
    return None


def _to_come(claim):
    if claim.state == PLANNED:
        return 'the request for this member of its group; it ends when it expires'
    return f'the host to report the instance, or {SETTLED}; it ends when it expires'


def _to_settle(claim, hosts):
    if claim.keeps_source:
        return f'{SETTLED} ends the claim on {hosts}, {BACK} ends this one'
    return f'{hosts} to report that the instance is gone, or {SETTLED}'


def _to_leave(leaving, hosts):
    if leaving.keeps_source:
        return f'the {leaving.move} to {hosts}: {SETTLED} ends this claim, {BACK} keeps it'
    return (
        f'the {leaving.move} to {hosts}: it ends when its host reports that the instance is gone'
    )


def _hosts(claims, place):
    return ', '.join(sorted(place(claim.node_uuid) or 'a node that is gone' for claim in claims))
