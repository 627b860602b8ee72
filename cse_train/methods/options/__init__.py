"""The options of each method, without torch: `Config` and `VERSION` in a module of the method's name.

A command that only reads settings (a table, a listing, a check of a space) starts faster for it. A method may also
keep both in its own module: `methods.options` finds them there.
"""
