r"""
What :mod:`botorch_binary_context.web` exports, loaded when first used.
"""

from botorch_binary_context.web.app import make_app
from botorch_binary_context.web.guard import Access, Role
from botorch_binary_context.web.lab import Lab
from botorch_binary_context.web.pages import Page
from botorch_binary_context.web.server import Place, find_place, serve

__all__ = [
    "Access",
    "Lab",
    "Page",
    "Place",
    "Role",
    "find_place",
    "make_app",
    "serve",
]
