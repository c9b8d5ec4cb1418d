// Recompute the chain of an exported log in another language: node recompute_chain.mjs LOG.ndjson [RECEIPT.json ...]
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

// RFC 8785: JavaScript sorts keys by UTF-16 code units and writes numbers and text as the RFC asks.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${members.join(",")}}`;
}
const digest = (value) => createHash("sha256").update(canonical(value)).digest("hex");
const fail = (words) => { console.error(words); process.exit(1); };

let head = "0".repeat(64);
const heads = [], reports = [];
for (const line of readFileSync(process.argv[2], "utf8").split("\n").filter((line) => line.trim())) {
  const { schema, hash, ...body } = JSON.parse(line);
  if (schema !== "parley/record/1") continue; // time stamps follow the records
  const number = heads.length + 1;
  if (body.sequence !== number || body.previous !== head || hash !== digest(body))
    fail(`record ${number} was changed, dropped or moved`);
  heads.push((head = hash));
  reports.push(body.payload.report ? digest(body.payload.report) : null);
}
for (const path of process.argv.slice(3)) {
  const receipt = JSON.parse(readFileSync(path, "utf8"));
  const place = receipt.sequence - 1;
  if (heads[place] !== receipt.head || reports[place] !== receipt.report)
    fail(`${path}: record ${receipt.sequence} is not the one, or not with the report, that the receipt was given for`);
}
console.log(`${heads.length} records and ${process.argv.length - 3} receipts fit; the head is ${head}`);
