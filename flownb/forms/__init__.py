"""What a question shows and asks for, whatever draws it: widgets in a notebook or a page of HTML.

the answer's type  -> tree.py      -> FieldSpec, a tree of them            (fields.py)
what a form begins with            <- typed.begin: a tree of texts         (texts.py: each leaf, both ways)
what a person typed, the same tree -> answers.AnswerType.read -> the answer, or words by dotted path (problems.py)
what the question is about         -> payload.shown: lines, blocks, tables, pictures
a control of one's own for a type  -> registry.register_field
"""
