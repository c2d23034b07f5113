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
"""Messages that wait in a scheduler which stands still, and clocks that are an hour off: real
processes.

While a scheduler is stopped, its callers give up, ask again at another one, and go on from its
answer. When the first one runs again, it handles what it had received. Each case sends one message
to the stopped scheduler and says what stands in the end. The messages name the claim that they
mean, and tell what their senders had seen. All of them share one pause.
"""

import concurrent.futures
import contextlib
import time

import oslo_messaging as messaging
import pytest

from nova_sched import errors, rpc
from nova_sched.engine.clock import STILL_S
from nova_sched.rpc.messages import Serializer
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node, eventually, spec
from nova_sched.tests.integration.cloud import Cloud

GIVES_UP_S = 2  # seconds after which a caller of the stopped scheduler has asked again
PAUSE_S = STILL_S + 3
PENDING, CONFIRMED = 'pending', 'confirmed'
NOVA = {'call_monitor_timeout': 60}  # a caller that waits for heartbeats, as Nova does


def large(**words):
    """What fits on the hosts for all, and not on those that a case has for itself."""
    return spec(vcpus=8, **words)


class Pair:
    """Two schedulers on one database: messages can be sent to each of them."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.stopped = cloud.daemon('stopped', scheduler__workers=1)
        self.other = cloud.daemon('other', scheduler__workers=1)
        self._pool = concurrent.futures.ThreadPoolExecutor(32)

    def call(self, server, method, namespace=None, version='4.5', cast=False, **words):
        """Have one scheduler do something; it need not be our client's way to ask."""
        options = {'timeout': words.pop('timeout', 20), **words.pop('options', {})}
        target = messaging.Target(
            exchange=rpc.EXCHANGE,
            topic=rpc.TOPIC,
            namespace=namespace,
            version=version,
            server=server,
        )
        timeout_s = None if 'call_monitor_timeout' in options else options['timeout']
        caller = messaging.get_rpc_client(
            self.cloud.bus, target, serializer=Serializer(timeout_s), **options
        )
        return (caller.cast if cast else caller.call)({}, method, **words)

    def late(self, method, *more, **words):
        """Send a message to the scheduler that stands still; the caller gives up."""
        words.setdefault('timeout', PAUSE_S * 3 if 'options' in words else GIVES_UP_S)
        self._pool.submit(self._ignored, method, *more, **words)

    def _ignored(self, *given, **words):
        with contextlib.suppress(Exception):
            self.call('stopped', *given, **words)

    def now(self, method, *more, **words):
        return self.call('other', method, *more, **words)

    def select(self, name, late=False, options=None, **words):
        """Ask for a host; returns the one that was chosen."""
        asked = {
            'spec_obj': large(**words),
            'instance_uuids': [uuid_of(name)],
            'return_objects': True,
        }
        if late:
            return self.late(
                'select_destinations', **asked, **({'options': options} if options else {})
            )
        return self.now('select_destinations', **asked)[0][0].service_host

    def claims(self, method, late=False, **words):
        return (self.late if late else self.now)(method, 'claims', '1.2', **words)

    def report(self, host, instances, late=False, **words):
        """Return the node's generation then."""
        node = compute_node(host, vcpus=4)
        told = {'name': host, 'stats': node, 'instances': instances, **words}
        send = self.late if late else self.now
        answer = send('update_resource_stats', 'stats', '1.2', **told)
        return None if late else answer['generation']

    def all_of(self, name):
        """The claims of an instance."""
        return self.claims('show', instance_uuid=uuid_of(name))

    def hosts_of(self, name):
        return {one.host: one.state for one in self.all_of(name)}

    def meant(self, name):
        """The words of a call that means the claim which is not settled."""
        (claim,) = (one for one in self.all_of(name) if one.state == PENDING)
        return {'instance_uuid': uuid_of(name), 'claim': claim.name}

    def over(self):
        self._pool.shutdown(wait=True)


class Case:
    """``before`` the pause; ``late`` is sent to the stopped scheduler, then ``again`` is done at
    the other one.

    ``after`` the pause it is ``true``.
    """

    def before(self, pair):
        pass

    def after(self, pair):
        pass


class AskedTwice(Case):
    name, options, built = 'asked twice', None, False

    def late(self, pair):
        pair.select(self.name, late=True, options=self.options)

    def again(self, pair):
        self.told = pair.select(self.name)
        if self.built:
            pair.claims('confirm_claim', instance_uuid=uuid_of(self.name), host=self.told)

    def true(self, pair):
        return pair.hosts_of(self.name) == {self.told: CONFIRMED if self.built else PENDING}


class AskedTwiceAndBuilt(AskedTwice):
    name, built = 'asked twice and built', True


class AskedTwiceByNova(AskedTwice):
    """The caller waits longer than the pause: the message is still carried out."""

    name, options = 'asked twice by Nova', NOVA


class AskedTwiceAndBuiltByNova(AskedTwice):
    name, options, built = 'asked twice and built by Nova', NOVA, True


class Move(Case):
    """A resize that was asked for again, done, and taken back. The first caller still waits: it
    gets a place, which is set aside until it is confirmed, and the instance keeps its own."""

    name = 'resized'

    def before(self, pair):
        self.home = pair.select(self.name)
        pair.claims('confirm_claim', instance_uuid=uuid_of(self.name), host=self.home)

    def late(self, pair):
        pair.select(self.name, late=True, options=NOVA, ignore_hosts=[self.home])

    def again(self, pair):
        target = pair.select(self.name, ignore_hosts=[self.home])
        where = {'host': target, 'nodename': target}
        pair.claims('resize_claim', spec_obj=large(), instance_uuid=uuid_of(self.name), **where)
        pair.claims('revert_claim', **pair.meant(self.name))

    def true(self, pair):
        found = pair.hosts_of(self.name)
        return found.pop(self.home, None) == CONFIRMED and set(found.values()) <= {PENDING}


class OldReport(Case):
    """A report without the instance is overtaken by one that lists it."""

    host, counted = 'reports-0', ({'boot': 1, 'sequence': 5}, {'boot': 1, 'sequence': 6})

    def before(self, pair):
        self.seen = pair.report(self.host, [])
        where = {'host': self.host, 'nodename': self.host}
        pair.claims('instance_claim', spec_obj=spec(), instance_uuid=uuid_of(self.host), **where)

    def late(self, pair):
        pair.report(self.host, [], late=True, **self.counted[0])

    def again(self, pair):
        pair.report(self.host, [uuid_of(self.host)], **self.counted[1])

    def true(self, pair):
        return pair.hosts_of(self.host) == {self.host: CONFIRMED}


class OldReportOfNova(OldReport):
    host, counted = 'reports-1', ({}, {})


class OldReportThatTells(OldReport):
    """Its sender had seen less than the node is now, and the other one has seen the claim."""

    host = 'reports-2'

    def late(self, pair):
        pair.report(self.host, [], late=True, seen=self.seen)

    def again(self, pair):
        seen = pair.report(self.host, [], seen=self.seen)
        pair.report(self.host, [uuid_of(self.host)], seen=seen)


class OldList(Case):
    """A host's list of instances, from before the instance came."""

    host = 'lists-0'

    def before(self, pair):
        pair.report(self.host, None)

    def late(self, pair):
        told = {'host_name': self.host, 'instance_uuids': []}
        pair.late('sync_instance_info', version='4.2', cast=True, **told)
        pair.late('delete_instance_info', version='4.2', cast=True, host_name=self.host,
                  instance_uuid=uuid_of(self.host))  # fmt: skip

    def again(self, pair):
        where = {'host': self.host, 'nodename': self.host}
        pair.claims('instance_claim', spec_obj=spec(), instance_uuid=uuid_of(self.host), **where)
        pair.claims('confirm_claim', instance_uuid=uuid_of(self.host), host=self.host)

    def true(self, pair):
        return pair.hosts_of(self.host) == {self.host: CONFIRMED}


class Aborted(Case):
    name = 'aborted'

    def before(self, pair):
        pair.select(self.name)

    def late(self, pair):
        self.meant = pair.meant(self.name)
        pair.claims('abort_claim', late=True, **self.meant)

    def again(self, pair):
        pair.claims('abort_claim', **self.meant)
        self.told = pair.select(self.name)

    def true(self, pair):
        return pair.hosts_of(self.name) == {self.told: PENDING}


class Reverted(Case):
    """The first move is taken back; another one is under way."""

    name = 'reverted'

    def before(self, pair):
        self.home = pair.select(self.name)
        pair.claims('confirm_claim', instance_uuid=uuid_of(self.name), host=self.home)
        self.move(pair)

    def move(self, pair):
        self.target = pair.select(self.name, ignore_hosts=[self.home])
        where = {'host': self.target, 'nodename': self.target}
        pair.claims('resize_claim', spec_obj=large(), instance_uuid=uuid_of(self.name), **where)

    def late(self, pair):
        self.meant = pair.meant(self.name)
        pair.claims('revert_claim', late=True, **self.meant)

    def again(self, pair):
        pair.claims('revert_claim', **self.meant)
        self.move(pair)

    def true(self, pair):
        return pair.hosts_of(self.name) == {self.home: CONFIRMED, self.target: PENDING}


class Alternate(Case):
    """The build failed on two hosts; the call about the first of them comes late."""

    name = 'alternate'

    def before(self, pair):
        self.first = pair.select(self.name)
        self.second, self.third = (f'host-{n}' for n in range(3) if f'host-{n}' != self.first)

    def alternate(self, pair, failed, to, **words):
        where = {'failed_host': failed, 'host': to, 'nodename': to}
        pair.claims('claim_alternate', spec_obj=large(), **where, **words)

    def late(self, pair):
        self.meant = pair.meant(self.name)
        self.alternate(pair, self.first, self.second, late=True, **self.meant)

    def again(self, pair):
        self.alternate(pair, self.first, self.second, **self.meant)
        self.alternate(pair, self.second, self.third, **pair.meant(self.name))

    def true(self, pair):
        return pair.hosts_of(self.name) == {self.third: PENDING}


class Removed(Case):
    """The node has come back since."""

    host = 'removed-0'

    def before(self, pair):
        self.seen = pair.report(self.host, [])

    def remove(self, pair, how):
        meant = {'name': self.host, 'nodename': self.host, 'generation': self.seen}
        how('remove_node', 'stats', '1.2', **meant)

    def late(self, pair):
        self.remove(pair, pair.late)

    def again(self, pair):
        self.remove(pair, pair.now)
        pair.report(self.host, [])
        where = {'host': self.host, 'nodename': self.host}
        pair.claims('instance_claim', spec_obj=spec(), instance_uuid=uuid_of(self.host), **where)

    def true(self, pair):
        return pair.hosts_of(self.host) == {self.host: PENDING}


class NewNode(Case):
    """The scheduler that stood still has not heard of the node where it is to confirm a claim."""

    host = 'new-0'

    def late(self, pair):
        pass

    def again(self, pair):
        pair.report(self.host, [])
        where = {'host': self.host, 'nodename': self.host}
        pair.claims('instance_claim', spec_obj=spec(), instance_uuid=uuid_of(self.host), **where)

    def after(self, pair):
        (made,) = pair.claims('show', instance_uuid=uuid_of(self.host))
        named = {
            'instance_uuid': uuid_of(self.host),
            'host': self.host,
            'claim': made.name,
        }
        pair.call('stopped', 'confirm_claim', 'claims', '1.2', **named)

    def true(self, pair):
        return pair.hosts_of(self.host) == {self.host: CONFIRMED}


CASES = [
    AskedTwice,
    AskedTwiceAndBuilt,
    AskedTwiceByNova,
    AskedTwiceAndBuiltByNova,
    Move,
    OldReport,
    OldReportOfNova,
    OldReportThatTells,
    OldList,
    Aborted,
    Reverted,
    Alternate,
    Removed,
    NewNode,
]


@pytest.fixture(scope='module')
def pair(upgraded, url, rabbitmq, tmp_path_factory):
    """After the pause: every message has been handled."""
    cloud = Cloud(tmp_path_factory.mktemp('pair'), rabbitmq.fresh(), url)
    try:
        made = Pair(cloud)
        cloud.add(3, vcpus=64)
        made.cases = {kind: kind() for kind in CASES}
        for case in made.cases.values():
            case.before(made)
        time.sleep(1)  # both know of all that
        made.stopped.pause()
        begin = time.monotonic()
        for case in made.cases.values():
            case.late(made)
        time.sleep(GIVES_UP_S)
        for case in made.cases.values():
            case.again(made)
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - begin)))
        made.stopped.resume()
        made.stopped.until_it_says('stood still')
        for case in made.cases.values():
            case.after(made)
        made.over()
        yield made
    finally:
        cloud.close()


@pytest.mark.parametrize('kind', CASES)
def test_what_was_told_last_stands(pair, kind):
    case = pair.cases[kind]
    eventually(lambda: case.true(pair))
    time.sleep(0.1)
    assert case.true(pair)


def test_the_scheduler_goes_on(pair):
    told = pair.call(
        'stopped',
        'select_destinations',
        spec_obj=spec(),
        instance_uuids=[uuid_of('then')],
        return_objects=True,
    )
    assert pair.hosts_of('then') == {told[0][0].service_host: PENDING}


HOUR_S = 3600
CLOCK = 'off that of the database'


def test_clocks_that_are_an_hour_off(upgraded, url, rabbitmq, tmp_path):
    """A claim of one stands for all, every host is up for all, and a caller may ask again
    anywhere."""
    cloud = Cloud(tmp_path, rabbitmq.fresh(), url)
    try:
        names = {'right': 0, 'ahead': HOUR_S, 'behind': -HOUR_S}
        daemons = {'right': cloud.daemon('right')}
        cloud.add(3, vcpus=64)
        pair = Pair.__new__(Pair)
        pair.cloud = cloud
        hosts = {}

        def select(server, name):
            asked = {'spec_obj': spec(), 'instance_uuids': [uuid_of(name)], 'return_objects': True}
            return pair.call(server, 'select_destinations', **asked)[0][0].service_host

        hosts['clock right'] = select('right', 'clock right')
        for name, wrong_s in names.items():
            if wrong_s:
                daemons[name] = cloud.daemon(name, wrong_s=wrong_s)
                hosts[f'clock {name}'] = select(name, f'clock {name}')
        time.sleep(3)  # each has looked for what is overdue, and at the others
        for name, host in hosts.items():
            told = {one.host for one in cloud.claims.show(uuid_of(name))}
            assert told == {host}
            for server in names:
                assert select(server, name) == host
        for name, wrong_s in names.items():
            if wrong_s:
                daemons[name].until_it_says(CLOCK)
        assert CLOCK not in daemons['right'].said()
        for server in names:
            with pytest.raises(errors.ClaimNotFound):
                pair.call(
                    server,
                    'confirm_claim',
                    'claims',
                    '1.2',
                    instance_uuid=uuid_of('none'),
                    host='host-0',
                )
            info = pair.call(
                server,
                'confirm_claim',
                'claims',
                '1.2',
                instance_uuid=uuid_of('clock ahead'),
                host=hosts['clock ahead'],
            )
            assert [one.state for one in info] == [CONFIRMED]
    finally:
        cloud.close()
