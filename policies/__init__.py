"""The CrossGuard policy pack: `pulumi preview --policy-pack policies [--policy-pack-config FILE]`.

Judges what a stack registers, whatever program registers it: an organisation runs the pack in its own
pipeline, where an author of stacks cannot switch it off. What a stack's description may say at all is judged
before, by the rules of `model`; the pack holds what differs from company to company, with thresholds in
config.
"""
