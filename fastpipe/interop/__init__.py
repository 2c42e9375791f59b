"""Other libraries' transforms, datasets and loaders, recognised: one file a library, each a table of its classes."""
