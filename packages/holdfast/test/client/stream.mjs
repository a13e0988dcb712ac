// Enqueues a stream of jobs with little memory, and prints what became of it. Arguments: store URL, number of jobs.
import { holdfast, job } from "holdfast";
import { z } from "zod";

const [store = "", count = "0"] = process.argv.slice(2);
const line = job({ type: "line", input: z.object({ n: z.number(), text: z.string() }), run: () => {} });
const hf = await holdfast({ store });

async function* lines() {
  for (let n = 0; n < Number(count); n++) yield { n, text: `${n} `.repeat(60) };
}

let answered = 0;
let inOrder = true;
const answers = await hf.enqueueMany(line, lines(), {
  onResult(answer, index) {
    if (answer.error !== null) throw answer.error;
    inOrder &&= index === answered;
    answered++;
  },
});
const { states } = await hf.stats();
await hf.close();
process.stdout.write(JSON.stringify({ answered, inOrder, gathered: answers.length, pending: states.pending }));
