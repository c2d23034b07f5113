import logging, time, os, signal, subprocess, sys, uuid
import pytest
from nova_sched.tests.functional.test_agent import *
def test_rabbit(conf, tmp_path, rabbitmq, caplog):
    caplog.set_level(logging.INFO)
    url = rabbitmq.fresh()
    c = Cloud.__new__(Cloud)
    c.bus = rpc.transport(conf, url); c.conductor=Conductor(c.bus); c.claims=ClaimsClient(c.bus); c._conf=conf; c._root=tmp_path; c._started=[]
    c.scheduler(); c.agent('cmp1')
    until(lambda: 'Reporting node' in caplog.text)
    until(c.takes)
    inst, host = c.boot(asked())
    until(lambda: c.states(inst)==[('cmp1','confirmed')])
    with pytest.raises(errors.ComputeResourcesUnavailable) as e:
        AgentClient(c.bus,'cmp1').build(asked(vcpus=9), str(uuid.uuid4()))
    print('REFUSAL', repr(e.value), str(e.value))
    # another machine with the same node
    c.agent('cmp2', uuid_file=tmp_path/'cmp1'/'compute_id')
    until(lambda: 'refuses' in caplog.text)
    print('STOPPING RABBIT'); rabbitmq.stop()
    until(lambda: 'cannot be reported' in caplog.text)
    time.sleep(8)
    rabbitmq.start()
    t=time.time()
    until(lambda: 'answers again' in caplog.text); print('BACK after', time.time()-t)
    assert AgentClient(c.bus,'cmp1').destroy(inst)
    until(lambda: c.states(inst)==[])
    rabbitmq.stop()
    time.sleep(2)
    t=time.time(); c._started[1].stop(); print('stop took', time.time()-t)
    rabbitmq.start()
    for r in caplog.records:
        if r.name.startswith('nova_sched'): print(r.name, r.levelname, r.getMessage()[:200])
    c.close()
