"""The generated pages of docs/reference, each from the declarations that the programs run by.

    __main__.py      writes all pages
    pages.py         the list of the pages
    markdown.py      tables, anchors
    docstrings.py    arguments of a class, and what its docstring says of each
    messages.py      the sentences of a CEL message
    figures.py       jobs that the webhooks refuse

Every other module has one page. The package is not in the wheel: only the site needs it.
"""
