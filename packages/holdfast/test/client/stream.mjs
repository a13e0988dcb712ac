// Enqueues a stream of jobs with little memory, and prints a summary. Arguments: store URL, number of jobs.
import { holdfast, job } from "holdfast";
import { z } from "zod";

const [store = "", count = "0"] = process.argv.slice(2);
const line = job({ type: "line", input: z.object({ n: z.number(), text: z.string() }), run: () => {} });
const hf = await holdfast({ store });

async function* lines() {
  for (let n = 0; n < Number(count); n++) yield { n, text: `${n} `.repeat(60) };
}

let reported = 0;
let inOrder = true;
const results = await hf.enqueueMany(line, lines(), {
  onResult(result, index) {
    if (result.error !== null) throw result.error;
    inOrder &&= index === reported;
    reported++;
  },
});
const { states } = await hf.stats();
await hf.close();
process.stdout.write(JSON.stringify({ reported, inOrder, gathered: results.length, pending: states.pending }));
