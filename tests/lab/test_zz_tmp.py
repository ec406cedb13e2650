import json
from test_trial_modules import *
from test_trial_modules import host, engine
from trial_host import result_of
def test_tmp(host):
    marks = host.start("sweep-0099", engine())
    ready = host.ready(marks, "sweep-0099")
    result = result_of(host.load_popen(ready["invocation_id"], samples="tokens", soak_s=12, repeats=2))
    open("/tmp/h6/lab.json","w").write(json.dumps(result, indent=1))
    open("/tmp/h6/lab.journal","w").write(host.run("journalctl", "-o", "cat", "-n", "4000"))
    open("/tmp/h6/lab.progress","w").write(host.run("cat", "/run/treeline/evidence/lab/progress.json"))
