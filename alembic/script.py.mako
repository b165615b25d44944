<%!
def body(commands):
    """The commands without the comments that autogenerate writes around them."""
    lines = [line for line in (commands or "pass").splitlines() if not line.lstrip().startswith("# ###")]
    return "\n".join(lines).strip("\n").lstrip()
%>\
"""${message.rstrip(".")}."""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = "${up_revision}"
down_revision = ${'"%s"' % down_revision if down_revision else None}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${body(upgrades)}


def downgrade() -> None:
    ${body(downgrades)}
