type Value = string | boolean | string[];
interface Resource {
  fields: Record<string, Value>;
  blocks: { kind: string; fields: Record<string, Value> }[];
}

/** Parses the Terraform resource that `terraform()` prints. Other syntax throws. */
export function readTerraform(text: string): Resource {
  const [opening, ...lines] = text.trimEnd().split("\n");
  if (!/^resource "aws_dynamodb_table" "\w+" \{$/.test(opening ?? "")) throw new Error(`not a table: ${opening}`);
  if (lines.pop() !== "}") throw new Error("the resource is not closed");
  const resource: Resource = { fields: {}, blocks: [] };
  let block: Resource["blocks"][number] | null = null;
  for (const line of lines.map((each) => each.trim()).filter((each) => each !== "")) {
    const kind = /^(?<kind>\w+) \{$/.exec(line)?.groups?.["kind"];
    const field = /^(?<name>\w+) +=\s(?<value>.+)$/.exec(line)?.groups;
    if (kind !== undefined && block === null) resource.blocks.push((block = { kind, fields: {} }));
    else if (line === "}" && block !== null) block = null;
    else if (field !== undefined) (block ?? resource).fields[field["name"] ?? ""] = JSON.parse(field["value"] ?? "");
    else throw new Error(`not understood: ${line}`);
  }
  if (block !== null) throw new Error("a block is not closed");
  return resource;
}
