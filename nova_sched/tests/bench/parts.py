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
"""The processor time that a scheduler spends on one select_destinations, by part of the call.

Measured in one process without the bus, where the serialized message is passed to the dispatcher,
and in a daemon on RabbitMQ. ``wait`` is all time of the process that no other part has: handing
over between threads, polling, and the threads in the background.
"""

import contextlib
import functools
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import types
import uuid

HERE = pathlib.Path(__file__).parent
PARTS = ('receive', 'read', 'translate', 'wait', 'decide', 'commit', 'answer', 'send')
FIELDS = ('what', *PARTS, 'ms a call')
SOME = 100  # calls
WITHOUT_BUS = 'none'

# Functions at which a part begins, and ends with their return. A part within a part counts only
# for itself.
BEGINS = types.MappingProxyType(
    {
        'oslo_messaging._drivers.amqpdriver:AMQPListener.poll': 'receive',
        'oslo_messaging._drivers.common:deserialize_msg': 'receive',
        'nova_sched.rpc.messages:Dispatcher.dispatch': 'receive',
        'nova_sched.rpc.messages:Serializer.deserialize_context': 'read',
        'nova_sched.rpc.messages:ServerSerializer.deserialize_entity': 'read',
        'nova_sched.rpc.translate:SchedulerSerializer.deserialize_entity': 'read',
        'nova_sched.rpc.translate:spec': 'translate',
        'nova_sched.rpc.translate:requests': 'translate',
        'nova_sched.engine.scheduler:Scheduler.place': 'wait',
        'nova_sched.engine.loop:Loop.turn': 'wait',
        'nova_sched.engine.cycle:Cycle.run': 'decide',
        'nova_sched.claims.sql:SqlClaimStore.commit': 'commit',
        'nova_sched.engine.sync.state_sync:StateSync.placement': 'commit',
        'nova_sched.engine.sync.state_sync:StateSync.committed': 'commit',
        'nova_sched.engine.answer:selections': 'answer',
        'nova_sched.engine.answer:Answers.placed': 'answer',
        'nova_sched.rpc.translate:selections': 'answer',
        'nova_sched.rpc.messages:Serializer.serialize_entity': 'send',
        'oslo_messaging._drivers.common:serialize_msg': 'send',
        'oslo_messaging._drivers.amqpdriver:AMQPIncomingMessage.reply': 'send',
    }
)


class Meter:
    """Seconds of processor time by part, in all threads of this process."""

    def __init__(self):
        self._of_thread = threading.local()
        self._all, self._lock = [], threading.Lock()

    def install(self):
        """Make the functions of ``BEGINS`` report to this meter, before objects keep methods of
        them."""
        for name, part in BEGINS.items():
            module_name, _, path = name.partition(':')
            module = importlib.import_module(module_name)
            *outer, last = path.split('.')
            owner = functools.reduce(getattr, outer, module)
            function = vars(owner)[last]
            metered = self._metered(function, part)
            setattr(owner, last, metered)
            if not outer:
                _replace_imports(last, function, metered)

    def _metered(self, function, part):
        def call(*args, **kwargs):
            state = self._state()
            outer = self._enter(state, part)
            try:
                return function(*args, **kwargs)
            finally:
                self._enter(state, outer)

        return functools.wraps(function)(call)

    def _state(self):
        """The thread's [current part, thread time at its begin, seconds by part]."""
        state = getattr(self._of_thread, 'state', None)
        if state is None:
            state = self._of_thread.state = [None, time.thread_time(), dict.fromkeys(PARTS, 0.0)]
            with self._lock:
                self._all.append(state[2])
        return state

    @staticmethod
    def _enter(state, part):
        """Count the time since the last change for the part until now; return that part."""
        before, since_s, sums = state
        now_s = time.thread_time()
        if before is not None:
            sums[before] += now_s - since_s
        state[0], state[1] = part, now_s
        return before

    def read(self):
        """Seconds by part since the process started; ``wait`` is the rest of its time."""
        with self._lock:
            found = {part: sum(one[part] for one in self._all) for part in PARTS}
        found['wait'] += time.process_time() - sum(found.values())
        return found


def _replace_imports(name, function, metered):
    for module in list(sys.modules.values()):
        if getattr(module, '__dict__', {}).get(name) is function:
            setattr(module, name, metered)


class WithoutBus:
    """A scheduler in this process. Calling it passes one message through the dispatcher, from its
    text to the text of the answer."""

    def __init__(self, conf, service, request):
        from oslo_messaging._drivers import common

        from nova_sched import rpc
        from nova_sched.rpc import endpoints, servers
        from nova_sched.rpc.translate import SchedulerSerializer

        self._scheduler = service.scheduler(conf, engine=service.shared(conf))
        pauses = self._scheduler.pauses
        bus = rpc.transport(conf, 'fake://')
        served = endpoints.all_of(self._scheduler)
        self._dispatch = servers.server(
            bus, 'none', served, serializer=SchedulerSerializer(), pauses=pauses
        ).dispatcher.dispatch
        self._request, self._common = request, common

    @contextlib.contextmanager
    def running(self):
        self._scheduler.start()
        try:
            yield
        finally:
            self._scheduler.stop()

    def text(self):
        """A new message, as it comes from the bus."""
        args = {**self._request['args'], 'instance_uuids': [str(uuid.uuid4())]}
        message = {'method': 'select_destinations', 'version': '4.5', 'args': args}
        return json.dumps(self._common.serialize_msg(message))

    def __call__(self, text):
        incoming = types.SimpleNamespace(
            message=self._common.deserialize_msg(json.loads(text)),
            ctxt=dict(self._request['context']),
            client_timeout=None,
            heartbeat=None,
        )
        result = self._dispatch(incoming)
        return json.dumps(self._common.serialize_msg({'result': result, 'failure': None}))


def _request():
    return json.loads((HERE / 'request.json').read_text())


def _row(what, spent, count):
    row = {part: f'{seconds * 1e3 / count:.3f}' for part, seconds in spent.items()}
    return {'what': what, **row, 'ms a call': f'{sum(spent.values()) * 1e3 / count:.2f}'}


def rows(budget_s=3.0, nodes=10_000):
    with tempfile.TemporaryDirectory() as name:
        yield _without_bus(pathlib.Path(name), budget_s, nodes)
    with tempfile.TemporaryDirectory() as name:
        yield from _over_rabbitmq(pathlib.Path(name), budget_s, nodes)


def _without_bus(folder, budget_s, nodes):
    """In a process of its own: other benchmarks run without the meter."""
    with _process(folder, WITHOUT_BUS, nodes) as child:
        _ask(child, SOME)
        spent, count, end = dict.fromkeys(PARTS, 0.0), 0, time.perf_counter() + budget_s
        while time.perf_counter() < end:
            made = _ask(child, SOME)
            spent = {part: spent[part] + made[part] for part in PARTS}
            count += SOME
        return _row(f'select_destinations without the bus, {nodes:,} hosts', spent, count)


def _over_rabbitmq(folder, budget_s, nodes):
    from nova_sched import rpc
    from nova_sched.tests.bench.calls import Caller, in_flight
    from nova_sched.tests.fixtures import rabbitmq

    with rabbitmq.server() as broker, _process(folder, broker.url, nodes) as child:
        call = Caller(broker.url, rpc.EXCHANGE, rpc.TOPIC, _request())
        for _ in range(SOME):
            call()
        for threads in (1, 16):
            _ask(child)
            count = in_flight(call, threads, budget_s) * budget_s
            what = f'select_destinations, RabbitMQ, {nodes:,} hosts, {threads} in flight'
            yield _row(what, _ask(child), count)


@contextlib.contextmanager
def _process(folder, bus, nodes):
    from nova_sched.tests.bench import commits
    from nova_sched.tests.bench.calls import process

    commits.sqlite_store(folder, nodes)
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    with process('-m', 'nova_sched.tests.bench.parts', str(folder), bus, **pipes) as child:
        if child.stdout.readline() != 'ready\n':
            raise RuntimeError('the scheduler did not start')
        yield child


def _ask(child, calls=0):
    child.stdin.write(f'{calls}\n')
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def main(folder, bus):
    """A scheduler that makes as many calls as a line of its input says, and writes what was spent
    since the line before."""
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    meter = Meter()
    meter.install()
    from oslo_log import log

    from nova_sched import rpc, service
    from nova_sched.conf import CONF

    log.register_options(CONF)
    CONF(['--log-file', f'{folder}/log'], project='nova_sched', default_config_files=[])
    log.setup(CONF, 'nova_sched')
    CONF.set_override('connection', f'sqlite:///{folder}/claims.sqlite', 'database')
    CONF.set_override('service_down_time', 10**6)  # the hosts reported once
    if bus == WITHOUT_BUS:
        made = WithoutBus(CONF, service, _request())
        with made.running():
            service.collect_seldom()
            _serve(meter, made)
        return
    served = service.SchedulerService(CONF, rpc.transport(CONF, bus))
    served.start()
    service.collect_seldom()
    _serve(meter)
    served.stop()


def _serve(meter, call=None):
    print('ready', flush=True)
    before = meter.read()
    for line in sys.stdin:
        if texts := [call.text() for _ in range(int(line))]:
            before = meter.read()
        for text in texts:
            call(text)
        after = meter.read()
        print(json.dumps({part: after[part] - before[part] for part in PARTS}), flush=True)
        before = after


if __name__ == '__main__':
    main(*sys.argv[1:])
