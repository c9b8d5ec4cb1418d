"""A program whose feature flag is a study: it asks `parley site` for the variant of each visitor, by OpenFeature.

    pip install openfeature-sdk openfeature-provider-ofrep
    python examples/feature_flag.py http://127.0.0.1:8643 trial visitor-17 visitor-18

The site's code, where it asks for one, is in the environment variable SITE_CODE.
"""

import os
import sys

from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext

address, flag, *visitors = sys.argv[1:]
code = os.environ.get("SITE_CODE", "")
api.set_provider(OFREPProvider(address, headers_factory=lambda: {"Authorization": f"Bearer {code}"} if code else {}))
client = api.get_client()
for visitor in visitors:
    found = client.get_string_details(flag, "as ever", EvaluationContext(targeting_key=visitor))
    counted = found.flag_metadata.get("counted", False)
    print(f"{visitor}: {found.value} ({'in the study' if counted else 'not in the study'})")
