"""How a cluster is reached: kubeconfigs, credentials, and a synchronous client of its API.

The controller has its own asynchronous client (muster/controller/kube): its image holds neither a YAML parser
nor the code of the command line. The simulated cloud has its own as well, since it must not share code with
what it tests.
"""
