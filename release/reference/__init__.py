"""The generated pages of docs/reference, each from the declarations that the programs run by.

    __main__.py      writes all pages
    pages.py         the list of the pages, tables, anchors
    components.py    arguments of a class, and what its docstring says of each
    admission.py     the policies, and the sentences of a CEL message

Every other module has one page.
"""
