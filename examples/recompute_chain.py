"""Recompute a log's chain without Parley, by the package rfc8785: recompute_chain.py LOG.ndjson [RECEIPT.json ...]"""

import hashlib
import json
import sys

import rfc8785


def digest(value: object) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


head, reports, heads = "0" * 64, {}, {}
with open(sys.argv[1], encoding="utf-8") as log:
    records = (json.loads(line, parse_int=float) for line in log if line.strip())  # as in JavaScript: doubles
    for number, record in enumerate((one for one in records if one["schema"] == "parley/record/1"), start=1):
        body = {key: value for key, value in record.items() if key not in ("schema", "hash")}
        if (record["sequence"], record["previous"], record["hash"]) != (number, head, digest(body)):
            sys.exit(f"record {number} was changed, dropped or moved")
        head = heads[number] = record["hash"]
        reports[number] = digest(record["payload"].get("report"))
for path in sys.argv[2:]:
    with open(path, encoding="utf-8") as file:
        receipt = json.load(file)
    place = receipt["sequence"]
    if (heads.get(place), reports.get(place)) != (receipt["head"], receipt["report"]):
        sys.exit(f"{path}: record {place} is not the one, or not with the report, that the receipt was given for")
print(f"{len(heads)} records and {len(sys.argv) - 2} receipts fit; the head is {head}")
