// The AI SDK's part of `items.py`: node items.mjs WHAT FAST SLOW prints {"cpu": seconds, "first": seconds}.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamObject } from "ai";
import { z } from "zod";

const [what, fast, slow] = process.argv.slice(2);
const person = z.object({ name: z.string(), age: z.number() });

function stream(baseURL) {
  const model = createOpenAICompatible({ name: "local", baseURL, supportsStructuredOutputs: true })("small");
  return what === "items"
    ? streamObject({ model, output: "array", schema: person, prompt: "Who lives there?" }).elementStream
    : streamObject({ model, schema: z.object({ value: z.array(person) }), prompt: "Who lives there?" })
        .partialObjectStream;
}

const hasItem = (value) => what === "items" || value.value?.[0]?.age !== undefined;

async function all(url) {
  let count = 0;
  for await (const _ of stream(url)) count++;
  if (!count) throw new Error("expected items, got none");
}

await all(fast.replace(/\/\d+\/v1$/, "/40/v1"));
const cpu = process.cpuUsage();
await all(fast);
const used = process.cpuUsage(cpu);
const began = performance.now();
for await (const value of stream(slow)) if (hasItem(value)) break;
console.log(JSON.stringify({ cpu: (used.user + used.system) / 1e6, first: (performance.now() - began) / 1e3 }));
process.exit(0);
