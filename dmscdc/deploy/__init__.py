"""The CloudFormation templates of a deployment, and the files beside them."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _lazily

if TYPE_CHECKING:
    from .files import templates as templates, write_templates as write_templates
else:
    __getattr__ = _lazily(__name__, {
        "templates": "files",
        "write_templates": "files",
    })

__all__ = ["templates", "write_templates"]
