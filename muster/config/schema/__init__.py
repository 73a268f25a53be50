"""The JSON Schema of a stack file, for editors and other checkers of YAML.

    stack_schema() -> the schema of a whole stack, draft 2020-12
    part_schema()  -> the schema of a file that extends another or is extended

Responsible for which keys there are, their kinds, ranges, words and defaults, and one sentence on each.
Words, defaults, machines and the fields of GangPolicy come from the model. tests/unit/config/test_schema.py
compares the schema with what the readers ask for.

The schema is stricter than the readers in one point: a text, number or list needs a value. The readers treat
`shares:` without a value as absent; an editor should show it as unfinished.
"""

from muster.config.schema.document import part_schema, stack_schema

__all__ = ["part_schema", "stack_schema"]
