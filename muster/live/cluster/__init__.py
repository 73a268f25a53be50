"""Reads a running cluster. Nothing is written to it.

kubeconfig.connect(path)  -> web.Web, with the kubeconfig's server and credentials
api.Api(web)              lists and single objects
mirror.Mirror(client)     lists that stay current
"""
