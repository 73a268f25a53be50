"""A live cluster, read and never written.

kubeconfig.connect(path)  -> web.Web, as who the kubeconfig says
api.Api(web)              lists and single objects
"""
