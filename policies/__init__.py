"""The CrossGuard policy pack: `pulumi preview --policy-pack policies [--policy-pack-config FILE]`.

Checks what a stack registers, with any program: an organisation runs the pack in its own pipeline, where an
author of stacks cannot disable it. The stack's description is checked before, by muster.validation. The pack
has the rules that differ between organisations, with thresholds in its config.
"""
