"""The compiler's front: from the source of a Python function to a typed function.

`find` has the syntax tree of a function, `flow` writes its statements as blocks of `steps`, `typed`
follows the types of names through the blocks, `numbers`, `arrays` and `calls` say what an
operation is for given types.
"""
