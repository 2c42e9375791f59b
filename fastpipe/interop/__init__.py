"""Other libraries' transforms, data sets and loaders, recognised: one file a library, each a table of its classes."""
