"""Charts: plain numbers in, an Altair chart out, one function a chart, one theme for all.

Names of models, columns and classes are data: they enter as values of fields whose own names are
fixed, so that no name can be read as an expression, a path into a record or markup.
"""
