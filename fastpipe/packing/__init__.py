"""Packing of datasets: their images in fastpipe's own arrangement, and smaller where that is wanted."""
