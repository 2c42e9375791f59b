"""albumentations: its own transforms, with their slow parts by the core and their leading crops drawn before decoding.

`planning` is the recipe that `fastpipe.transforms.adapters` finds for a class of albumentations. What datasets, the
wrapper `fastpipe.transforms.Albumentations` and the hook need of albumentations is here and nowhere else.
"""
