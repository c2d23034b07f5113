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
"""News among schedulers on the bus: a topic of its own, where each process hears all and tells all."""

import oslo_messaging as messaging

from nova_sched import errors, rpc
from nova_sched.claims import plain
from nova_sched.engine.news import Commit, News

TOPIC = 'nova_sched_news'


def to_plain(news):
    """The arguments of ``changed`` for News."""
    return {
        'made_s': news.made_s,
        'commits': [
            {
                'nodes': {uuid: list(generations) for uuid, generations in commit.nodes.items()},
                'consumers': list(commit.consumers),
                'claims': [plain.to_plain(claim) for claim in commit.claims],
            }
            for commit in news.commits
        ],
        'looks': dict(news.looks),
        'tables': news.tables,
    }


def from_plain(made_s, commits=(), looks=None, tables=False):
    """News of the arguments of ``changed``. Raises TypeError, ValueError, LookupError or AttributeError.

    A claim that this release cannot read leaves its nodes to be looked at.
    """
    read, unread = [], {}
    for one in commits:
        nodes = {uuid: (int(before), int(after)) for uuid, (before, after) in one['nodes'].items()}
        try:
            claims = tuple(map(plain.from_plain, one['claims']))
        except (TypeError, ValueError, errors.SchedError):
            unread |= {uuid: after for uuid, (_, after) in nodes.items()}
        else:
            read.append(Commit(nodes, tuple(one['consumers']), claims))
    known = {uuid: None if one is None else int(one) for uuid, one in (looks or {}).items()}
    return News(float(made_s), tuple(read), unread | known, bool(tables))


class NewsClient:
    """Tells the other schedulers; ``origin`` is the UUID of this one, which hears itself too."""

    def __init__(self, bus, origin):
        target = messaging.Target(
            exchange=rpc.EXCHANGE, topic=TOPIC, namespace='news', version='1.0', fanout=True
        )
        # All is plain: no serializer has to walk through it. Nobody waits for a bus that is away.
        caller = messaging.get_rpc_client(bus, target, serializer=messaging.NoOpSerializer())
        self._caller = caller.prepare(retry=0)
        self._origin = origin

    def tell(self, news):
        """Raises NoAnswer if the bus does not take it."""
        try:
            self._caller.cast({}, 'changed', origin=self._origin, **to_plain(news))
        except (messaging.MessagingException, OSError) as error:
            raise errors.NoAnswer('changed', str(error)) from None
