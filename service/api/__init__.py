"""HTTP: routes and handlers."""

from service.api.app import make_admin, make_app
from service.api.context import Context
from service.api.middleware import AuthAndLimits

__all__ = ["AuthAndLimits", "Context", "make_admin", "make_app"]
