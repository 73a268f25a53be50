"""Platform and queues for programs in any Pulumi language.

components/provider/ is the plugin that hosts them: `pulumi package add` makes an SDK of its schema, which the
Pulumi SDK's own host infers from the annotations of the classes here.
"""
