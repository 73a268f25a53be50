"""Every resource that the components may use, input by input.

Which changes replace a resource is read off the providers' own schemas (ForceNew), in
hashicorp/terraform-provider-google google/services and hashicorp/terraform-provider-aws internal/service.
"""

from typing import Final

from tests.clouds.standin.table import Table
from tests.clouds.standin.tables import (
    aws_account,
    compute,
    ec2,
    eks,
    events,
    gke,
    google_project,
    launch_templates,
)

TABLES: Final[dict[str, Table]] = {
    table.token: table
    for module in (gke, compute, google_project, eks, ec2, launch_templates, aws_account, events)
    for table in module.TABLES
}
