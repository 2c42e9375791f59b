"""Other libraries' transforms, recognised by their class and planned: one module with a table for each library.

`fastpipe.transforms.adapters` imports the module for the library of an object's class when it first needs it.
"""
