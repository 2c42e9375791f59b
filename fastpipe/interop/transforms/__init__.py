"""Other libraries' transforms, recognised by their class and planned: one module a library, each a table.

`fastpipe.transforms.adapters` finds a recipe by the module of an object's class, and imports it then.
"""
