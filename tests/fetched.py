"Fetches what Spark needs for each format and for S3, one after the other, before parts that want the same begin at once: python tests/fetched.py FORMAT…"
from __future__ import annotations

import os
import subprocess
import sys

AWS = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true"}
START = "import sys; from dmscdc.spark.session import open_session; open_session(master='local[1]', format=sys.argv[1], places=['s3://bucket']).stop()"

for name in sys.argv[1:]: subprocess.run([sys.executable, "-c", START, name], env={**os.environ, **AWS}, check=True, timeout=600)
